"""Explanations, questions and a guided tour whose numbers are computed when they are shown.

    content/*.toml ──► lessons ──► pages         docs/learn/*.md
                  ├──► questions ──► answers     posenc quiz, and a page that asks in the browser
                  └──► tour                      the explorer

The files in `content` hold sentences with named values, and the code that computes the values. A
number that an author typed into a sentence is an error, and so is a claim that does not hold.
"""

from posenc.learn.answers import Verdict, judge
from posenc.learn.lessons import Lesson, Section, lesson, topics
from posenc.learn.pages import page, quiz_page
from posenc.learn.questions import Choice, Number, Question, question, question_ids, quiz
from posenc.learn.tour import stop, stops

__all__ = [
    "Choice",
    "Lesson",
    "Number",
    "Question",
    "Section",
    "Verdict",
    "judge",
    "lesson",
    "page",
    "question",
    "question_ids",
    "quiz",
    "quiz_page",
    "stop",
    "stops",
    "topics",
]
