"""Notes of a run."""

from steelyard.conductor.listener import NullListener
from steelyard.conductor.noting import Notes
from steelyard.store import RunReader, RunStore


class Hears(NullListener):
    def __init__(self):
        self.heard = []

    def note(self, text):
        self.heard.append(text)


def test_a_note_is_told_and_recorded_and_a_failure_once_of_a_kind(tmp_path):
    listener, told = Hears(), "what failed after step {}: {}; the run goes on"
    with RunStore.start(tmp_path / "run", {}, model="none") as store:
        notes = Notes(store, listener)
        notes.add("twice")
        notes.add("twice")
        notes.failed("what failed", "step 1", ValueError("first"))
        notes.failed("what failed", "step 2", ValueError("second"))
        notes.failed("what failed", "step 3", OSError("no room"))
        notes.failed("something else failed", "step 3", ValueError("first"))
        store.finish("finished")
    assert listener.heard == [
        "twice",
        "twice",
        told.format(1, "ValueError: first"),
        told.format(3, "OSError: no room"),
        "something else failed after step 3: ValueError: first; the run goes on",
    ]
    with RunReader(tmp_path / "run") as reader:
        assert [event.text for event in reader.events("note")] == listener.heard
