"""A worksheet, its answers and a page to look at, for a class: python journey_class.py."""

import subprocess
import sys
from pathlib import Path

from posenc import learn

# 1. Four lessons of about a quarter of an hour each, in this order.
plan = ["why", "formula", "rope", "stretching"]
for topic in plan:
    lesson = learn.lesson(topic)
    print(f"{lesson.title}: {lesson.lead}")

# 2. Two questions on each. The seed chooses the numbers; give each group another one. Every
#    answer was proven by code, which the sheet of answers shows.
sheet, answers = ["# Worksheet", ""], ["# Answers", ""]
number = 0
for topic in plan:
    for name in learn.question_ids(topic)[:2]:
        question = learn.question(topic, name, seed=2024)
        number += 1
        sheet += [f"{number}. {question.prompt}", ""]
        options = getattr(question.answer, "options", ())
        sheet += [f"    - {text}" for _, text in options] + [""] * bool(options)
        answers += [f"{number}. {question.explanation}", "", f"{question.transcript}", ""]
Path("worksheet.md").write_text("\n".join(sheet))
Path("answers.md").write_text("\n".join(answers))
print(f"{number} questions in worksheet.md, with proofs in answers.md")

# 3. The pictures that the lessons look at, in one page that needs no Python in the classroom.
states = [learn.lesson(topic).see.address for topic in plan]
Path("states.txt").write_text("\n".join(states))
subprocess.run(  # noqa: S603
    [Path(sys.executable).with_name("posenc"), "explore", "--freeze", "class.html",
     "--states", "states.txt", "--force"],
    check=True, stdout=subprocess.DEVNULL,
)  # fmt: skip
print("class.html has", len(states), "pictures to click through:", Path("class.html").exists())
