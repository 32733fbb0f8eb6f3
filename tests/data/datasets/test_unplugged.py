"""Shards of RL Unplugged, beside what TensorFlow reads from them, and with every kind of damage."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from tests.data.datasets.shards.compare import compare

from rlfast._core import UnpluggedShards
from rlfast.cli.data import main
from rlfast.data import ReplayBuffer
from rlfast.data.datasets.opening import open_source
from rlfast.data.formats.rl_unplugged import SkippedWarning, UnpluggedSource
from rlfast.utils import tree
from shard_files import checksum, example, image, png, record, row, shard, write

SHARD = Path(__file__).parent / "shards" / "run_1-00000-of-00100"


def columns(source):
    return tree.joined(list(source.parts()))


def read(path, **options):
    return columns(UnpluggedSource(path, path.parent, **options))


class TestBesideTensorFlow:
    def test_all_features_of_all_records(self, tmp_path):
        assert compare(SHARD.parent, tmp_path) == (48, 48)

    def test_rows_are_linked_as_they_were_played(self):
        with np.load(SHARD.parent / "by_tensorflow.npz") as wanted:
            found = read(SHARD)
            starts = np.flatnonzero(np.append(True, (found["truncated"] | found["terminated"])[:-1]))
            chains = np.diff(np.append(starts, 48))
            inside = np.setdiff1d(np.arange(48), starts)
            assert np.array_equal(found["obs"][inside], found["obs_next"][inside - 1])
            assert np.array_equal(found["info"]["episode_id"][inside], found["info"]["episode_id"][inside - 1])
            assert len(np.unique(wanted["episode_id"])) == 3
            assert chains.mean() > 4

    def test_images_are_stored_once(self, tmp_path):
        with np.load(SHARD.parent / "by_tensorflow.npz") as wanted:
            both = np.concatenate([wanted["o_t"], wanted["o_tp1"]])
            images = len(np.unique(both.reshape(-1, 84 * 84), axis=0))
        out = tmp_path / "out"
        assert main(["convert", "--from", "rl-unplugged", str(SHARD), "--out", str(out), "--no-progress"]) == 0
        assert out.stat().st_size < 1.6 * images * 84 * 84
        assert out.stat().st_size < 48 * 2 * 4 * 84 * 84 / 4


def test_shuffled_rows_are_put_in_order(tmp_path):
    rows = [row(step, episode, last=step == 9) for episode in (1, 2) for step in range(10)]
    shuffled = [rows[k] for k in np.random.default_rng(0).permutation(20)]
    found = read(write(tmp_path / "shard", shuffled))
    first = found["info"]["episode_id"][0]
    assert found["info"]["episode_id"].tolist() == [first] * 10 + [3 - first] * 10
    assert found["rew"].tolist() == [*range(10)] * 2
    assert np.flatnonzero(found["terminated"]).tolist() == [9, 19]
    assert not found["truncated"].any()
    assert found["act"].tolist() == [step % 3 for step in range(10)] * 2
    assert np.array_equal(found["obs"][3, 1], image(100 * first + 4))
    assert np.array_equal(found["obs_next"][3, 3], image(100 * first + 7))
    assert (found["info"]["episode_return"] == 2.5).all()


def test_rows_that_the_content_does_not_tell_apart_are_not_linked(tmp_path):
    """Image 1 does not change for some steps, whose order nobody knows."""
    still = [row(step, numbers=[1] * 5, act=0, a_tp1=0) for step in range(3)]
    leaving = row(3, numbers=[1, 1, 1, 1, 2], act=0)
    found = read(write(tmp_path / "shard", [leaving, *still, row(4, numbers=[1, 1, 1, 2, 3], act=1, last=True)]))
    assert sorted(found["rew"]) == [0, 1, 2, 3, 4]
    ends = found["truncated"] | found["terminated"]
    assert ends.sum() == 4  # the step from 3 to 4 alone is sure
    place = found["rew"].tolist().index(3)
    assert found["rew"][place + 1] == 4
    assert not ends[place]


def test_a_row_of_another_episode_does_not_follow(tmp_path):
    found = read(write(tmp_path / "shard", [row(0), row(1) | {"episode_id": 8}]))
    assert found["truncated"].tolist() == [True, True]


def test_several_shards(tmp_path, capsys, monkeypatch):
    """Rows of one shard never follow those of another."""
    monkeypatch.setattr("rlfast.utils.progress_bar._is_terminal", lambda: True)
    paths = [write(tmp_path / str(k), [row(k)]) for k in range(3)]
    out = tmp_path / "out.hdf5"
    arguments = ["convert", "--from", "rl-unplugged", *map(str, paths), "--out", str(out)]
    assert main(arguments) == 0
    assert "reading 2: 100%" in capsys.readouterr().err
    buffer = ReplayBuffer.load_hdf5(out)
    assert buffer.rew.tolist() == [0, 1, 2]
    assert buffer.truncated.all()
    assert buffer.info.episode_id.tolist() == [7, 7, 7]


def test_shards_are_recognised(tmp_path, capsys):
    path = write(tmp_path / "run_1-00000-of-00100", [row(0), row(1, last=True)])
    assert isinstance(open_source(str(path)), UnpluggedSource)
    assert main(["info", str(path)]) == 0
    assert capsys.readouterr().out.startswith("2 transitions, 1 episode, return 1.00")


def test_a_file_that_is_not_compressed(tmp_path):
    path = tmp_path / "shard"
    path.write_bytes(shard([row(0)]))
    assert open_source(str(path), "rl-unplugged").length == 1


def test_the_rows_do_not_depend_on_the_number_of_threads(tmp_path):
    import rlfast

    path, found = write(tmp_path / "shard", [row(step) for step in range(40)]), []
    for threads in (1, 2):
        before = rlfast.get_num_threads()
        rlfast.set_num_threads(threads)
        found.append(read(path))
        rlfast.set_num_threads(before)
    assert np.array_equal(found[0]["obs"], found[1]["obs"])


# -- damage ------------------------------------------------------------------------------------------------------------
ROWS = [row(step) for step in range(4)]
WHOLE = shard(ROWS)
EDGES = np.cumsum([len(record(example(one))) for one in ROWS])


def flipped(place, compress=True):
    wrong = bytearray(WHOLE)
    wrong[place] ^= 1
    return gzip.compress(bytes(wrong), 1) if compress else bytes(wrong)


def replaced(step, **changes):
    return gzip.compress(shard([*ROWS[:step], ROWS[step] | changes, *ROWS[step + 1 :]]), 1)


def with_images(first):
    return [first, *ROWS[2]["o_t"][1:]]


def damaged_image():
    wrong = bytearray(png(image(3)))
    wrong[100] ^= 1
    return bytes(wrong)


def claiming(length):
    head = struct.pack("<Q", length)
    return gzip.compress(head + struct.pack("<I", checksum(head)) + bytes(100))


GOES_ON = {
    "wrong CRC": (flipped(EDGES[1] + 5000), "record 2: the checksum of its bytes is wrong"),
    "no image": (replaced(2, o_t=with_images(b"GIF89a")), "record 2: image 0 of o_t is no PNG image"),
    "other size": (
        replaced(2, o_t=with_images(png(image(3, (84, 80))))),
        r"record 2: image 0 of o_t is of \[84, 80\] pixels, the first one of all is of \[84, 84\]",
    ),
    "colours": (replaced(2, o_t=with_images(png(image(3), colour=2))), "only 8 bits of grey are read"),
    "damaged image": (replaced(2, o_t=with_images(damaged_image())), "record 2: an image is damaged"),
    "few images": (replaced(2, o_tp1=[]), "record 2: o_tp1 holds 0 strings of bytes, not 4"),
    "other kind": (replaced(2, a_t=1.5), "record 2: a_t holds numbers, not integers"),
    "image bomb": (
        replaced(2, o_t=with_images(png(np.zeros((1 << 12, 1 << 12), np.uint8)))),
        "record 2: image 0 of o_t is of 4096 x 4096 pixels; at most 1048576 pixels are read",
    ),
}
EMPTY = {"o_t": [png(np.zeros((84, 84), np.uint8))] * 4, "o_tp1": [png(np.zeros((84, 84), np.uint8))] * 4}
BOMB = gzip.compress(record(example(ROWS[0] | EMPTY | {"padding": [bytes(1 << 20)]})) * 200, 9)
STOPS = {
    "truncated": (gzip.compress(WHOLE, 1)[:-2000], "after record 3: the compressed file is cut short"),
    "truncated inside": (gzip.compress(WHOLE[:-10], 1), "record 3: the file ends inside of it"),
    "wrong length": (flipped(EDGES[1] + 2), "record 2: the checksum of its length is wrong"),
    "over-long": (gzip.compress(WHOLE, 1) + b"more", "after record 3"),
    "long claim": (claiming(1 << 40), "record 0: it claims 1099511627776 bytes, more than the 16777216 allowed"),
    "zip bomb": (gzip.compress(bytes(1 << 28), 9), "record 0: the checksum of its length is wrong"),
    "bomb of records": (BOMB, "which no dataset of images does"),
    "something else": (gzip.compress(b"Hello, here is some text."), "or no TFRecord file"),
}


@pytest.mark.parametrize("name", [*GOES_ON, *STOPS])
@pytest.mark.parametrize("kind", ["snapshot", "hdf5"])
def test_damage_is_one_line_and_leaves_nothing_behind(tmp_path, capsys, name, kind):
    content, match = (GOES_ON | STOPS)[name]
    path = tmp_path / "shard"
    path.write_bytes(content)
    arguments = ["convert", "--from", "rl-unplugged", str(path), "--to", kind, "--out", str(tmp_path / "out")]
    assert main([*arguments, "--no-progress"]) == 2
    streams = capsys.readouterr()
    assert (streams.out, streams.err.count("\n")) == ("", 1)
    assert str(path) in streams.err
    with pytest.raises(ValueError, match=match):
        read(path)
    assert [one.name for one in tmp_path.iterdir()] == ["shard"]


@pytest.mark.parametrize("name", GOES_ON)
def test_broken_records_are_left_out_when_asked(tmp_path, name):
    content, match = GOES_ON[name]
    path = tmp_path / "shard"
    path.write_bytes(content)
    with pytest.warns(SkippedWarning, match=f"left out: .*shard: .*{match}"):
        found = read(path, skip_broken=True)
    assert sorted(found["rew"]) == [0, 1, 3]


@pytest.mark.parametrize("name", STOPS)
def test_a_file_that_ends_early_is_an_error_in_any_case(tmp_path, name):
    path = tmp_path / "shard"
    path.write_bytes(STOPS[name][0])
    with pytest.raises(ValueError, match=STOPS[name][1]):
        read(path, skip_broken=True)


def test_skipping_says_how_many(tmp_path, capsys):
    path = tmp_path / "shard"
    path.write_bytes(gzip.compress(shard([ROWS[0], ROWS[1] | {"a_t": 1.5}, ROWS[2] | {"a_t": 1.5}]), 1))
    arguments = ["convert", str(path), "--skip-broken", "--out", str(tmp_path / "out"), "--no-progress"]
    assert main(arguments) == 0
    err = capsys.readouterr().err
    assert err == f"rlfast: left out: {path}: record 1: a_t holds numbers, not integers, and 1 more\n"
    assert ReplayBuffer.load(tmp_path / "out").rew.tolist() == [0]


def test_a_shard_without_records(tmp_path, capsys):
    path = tmp_path / "shard"
    path.write_bytes(gzip.compress(b""))
    assert main(["convert", str(path), "--out", str(tmp_path / "out"), "--no-progress"]) == 2
    assert "there are no transitions" in capsys.readouterr().err


def test_places_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        open_source(str(tmp_path / "gone"), "rl-unplugged")
    with pytest.raises(FileNotFoundError, match="cannot make a scratch file in"):
        UnpluggedShards(tmp_path / "gone", False)
    shards = UnpluggedShards(tmp_path, False)
    with pytest.raises(FileNotFoundError, match="cannot read"):
        shards.open(tmp_path / "gone")
    for call in (shards.values, shards.observations):
        with pytest.raises(IndexError, match="rows 0 to 1 are not there"):
            call(0, 1)
