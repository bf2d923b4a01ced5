#!/usr/bin/env bash
# A browser for the tests of the explorer's page: the one of CHROME or of the path, or else Chromium
# from the system's packages, where this user may install them. Without one those tests are skipped,
# and say so; nothing else depends on it.
set -euo pipefail

found() {
  if [ -n "${CHROME:-}" ]; then
    [ -x "$CHROME" ] || { echo "CHROME names $CHROME, which is no program." >&2; exit 2; }
    return 0
  fi
  for name in chromium chromium-browser google-chrome google-chrome-stable chrome; do
    command -v "$name" >/dev/null && return 0
  done
  return 1
}

found && exit 0
if ! command -v apt-get >/dev/null; then
  echo 'No browser, and no apt-get to install Chromium with: the tests of the page are skipped.'
  exit 0
fi
if [ "$(id -u)" = 0 ]; then
  as_root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  as_root=(sudo -n)
else
  echo 'No browser, and no right to install one: the tests of the page are skipped.'
  exit 0
fi

mkdir -p build
echo 'Installing Chromium for the tests of the page'
install=(env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends)
if "${as_root[@]}" apt-get update >build/browser.log 2>&1 &&
  "${as_root[@]}" "${install[@]}" chromium >>build/browser.log 2>&1 && found; then
  exit 0
fi
echo "It could not be installed (build/browser.log ends: $(tail -n 1 build/browser.log));" \
  'the tests of the page are skipped.'
