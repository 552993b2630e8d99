"""Messages as mail, by Apprise, to a mail server on this machine."""

import sys
from collections.abc import Iterator

import pytest

from jobs.configuration.config import ConfigError
from jobs.configuration.notify import Target
from kafka_metadata_history.notify.by_apprise import ByApprise
from kafka_metadata_history.notify.due import due
from kafka_metadata_history.notify.http import SendError
from tests.support.alerts import EVERYTHING, NOON, alert, ended, seen
from tests.support.smtp_receiver import SmtpReceiver, mail_server

# Apprise imports a module of Python that newer ones lack.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
TARGET = Target("apprise", "env:KAFKA_MAIL")


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmtpReceiver]:
    with mail_server() as receiver:
        place = f"127.0.0.1:{receiver.port}?mode=insecure"
        monkeypatch.setenv("KAFKA_MAIL", f"mailto://{place}&from=us@example.com&to=you@example.com")
        yield receiver


def test_a_message_is_a_mail(mails: SmtpReceiver) -> None:
    receiver = ByApprise("mail", TARGET)
    hostile = alert(severity="page", link="https://pages/incident/a", text="<b>x</b> **y**.")
    (first,) = due(seen(hostile), {}, EVERYTHING, [], NOON)
    (worse,) = due(
        seen(alert(severity="page", level="offline")), first.becomes, EVERYTHING, [], NOON
    )
    (over,) = due(seen(ended(first.alert)), first.becomes, EVERYTHING, [], NOON)
    for message in (first, worse, over):
        receiver.send(message, NOON)
    subjects = [each["Subject"] for each in mails.mails]
    assert subjects == ["OPEN ticket: a", "WORSE ticket: a", "OVER ticket: a"]
    assert mails.mails[0]["To"] == "you@example.com"
    text = mails.mails[0].get_content()
    assert text.splitlines() == ["<b>x</b> **y**.", "https://pages/incident/a", "[a-opened-1]"]


def test_a_mail_that_is_refused_fails(mails: SmtpReceiver) -> None:
    mails.refuses = True
    (message,) = due(seen(alert()), {}, EVERYTHING, [], NOON)
    with pytest.raises(SendError, match="Apprise could not send it"):
        ByApprise("mail", TARGET).send(message, NOON)


def test_a_url_that_apprise_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_MAIL", "nonsense://hunter2")
    (message,) = due(seen(alert()), {}, EVERYTHING, [], NOON)
    with pytest.raises(SendError, match="Apprise knows no such URL") as raised:
        ByApprise("mail", TARGET).send(message, NOON)
    assert "hunter2" not in str(raised.value)


def test_without_apprise_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ConfigError, match=r"pip install 'kafka-metadata-history\[apprise\]'"):
        ByApprise("mail", TARGET)
