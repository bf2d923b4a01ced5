// A lesson's picture becomes the live one when it comes into view; without a script it stays.
const frames = new Map();

const enliven = (figure) => {
  const image = figure.querySelector("img");
  const frame = document.createElement("iframe");
  frame.title = image.alt;
  frame.src = figure.dataset.live;
  frame.addEventListener("load", () => image.remove(), { once: true });
  figure.prepend(frame);
  frames.set(frame.contentWindow, frame);
};

// The page in the frame tells its height.
addEventListener("message", ({ source, data }) => {
  const frame = frames.get(source);
  if (frame && Number.isFinite(data?.posencHeight)) {
    frame.style.height = `${Math.min(Math.max(data.posencHeight, 200), 2400)}px`;
  }
});

addEventListener("DOMContentLoaded", () => {
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      enliven(target);
    }
  }, { rootMargin: "300px" });
  document.querySelectorAll("figure[data-live]").forEach((figure) => near.observe(figure));
});
