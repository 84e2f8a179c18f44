"""Pool files: what ships, what a user adds, and how a wrong one is named."""

import pytest

from kernelswarm.hardware.pools.pool_files import find_pool, load_pools
from kernelswarm.schemas import PoolError


def write(home, name: str, text: str):
    (home / "pools").mkdir(exist_ok=True)
    path = home / "pools" / f"{name}.toml"
    path.write_text(text)
    return path


def test_the_cpu_pool_ships(tmp_path):
    pool = find_pool("cpu", tmp_path)
    assert (pool.name, pool.platform, pool.languages) == ("cpu", "cpu", ("cpp",)) and pool.description


def test_a_pool_of_gpus_ships(tmp_path):
    pool = find_pool("h200", tmp_path)
    assert (pool.platform, pool.languages, pool.target) == ("nvidia", ("triton", "cuda"), "sm_90")


def test_a_user_adds_a_pool_and_replaces_one(tmp_path):
    write(tmp_path, "clang", 'platform = "cpu"\nlanguages = ["cpp"]\ncompiler = "clang++"\nthreads = 4\n')
    write(tmp_path, "cpu", 'platform = "cpu"\nlanguages = ["cpp"]\ncandidate_seconds = 5\n')
    pools = load_pools(tmp_path)
    assert list(pools) == ["clang", "cpu", "h200"]
    assert (pools["clang"].name, pools["clang"].compiler, pools["clang"].threads) == ("clang", "clang++", 4)
    assert pools["cpu"].candidate_seconds == 5.0


def test_an_unknown_pool_names_the_nearest_and_all(tmp_path):
    write(tmp_path, "clang", 'platform = "cpu"\nlanguages = ["cpp"]\n')
    with pytest.raises(PoolError, match=r"'cpuu' \(did you mean 'cpu'\?\); there is clang, cpu, h200"):
        find_pool("cpuu", tmp_path)
    with pytest.raises(PoolError, match=r"'tpu-v7'; there is clang, cpu, h200"):
        find_pool("tpu-v7", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('platform = "cpu', "not valid TOML"),
        ('platform = "tpu"\nlanguages = ["cpp"]', "platform = 'tpu': there is cpu"),
        ('platform = "cpu"\nlanguages = ["rust"]', r"languages = \('rust',\): there is cpp"),
        ('platform = "cpu"\nlanguages = []', "languages = "),
        ('platform = "cpu"\nlanguages = "cpp"', "languages = 'cpp': Expected `array`"),
        ('platform = "cpu"', "missing required field `languages`"),
        ('platform = "cpu"\nlanguages = ["cpp"]\nthreads = -1', "threads = -1"),
        ('platform = "cpu"\nlanguages = ["cpp"]\nthreads = "all"', "threads = 'all': Expected `int`"),
        ('platform = "cpu"\nlanguages = ["cpp"]\ncandidate_seconds = 0', "candidate_seconds = 0"),
        ('platform = "cpu"\nlanguages = ["cpp"]\ncandidate_seconds = nan', "candidate_seconds = nan"),
        ('platform = "cpu"\nlanguages = ["cpp"]\ncandidate_memory_bytes = -5', "candidate_memory_bytes = -5"),
        ('platform = "nvidia"\nlanguages = ["triton"]\ntarget = "h200"', "target = 'h200': as sm_90"),
        ('platform = "nvidia"\nlanguages = ["triton"]\ndevices = [-1]', r"devices = \(-1,\): indices from 0"),
        ('platform = "cpu"\nlanguages = ["cpp"]\nthread = 2', "unknown key 'thread' = 2; did you mean 'threads'"),
        ('name = "other"\nplatform = "cpu"\nlanguages = ["cpp"]', "name = 'other': it must be the file's name"),
    ],
)
def test_a_wrong_file_is_named_with_key_and_value(tmp_path, text, message):
    path = write(tmp_path, "mine", text)
    with pytest.raises(PoolError, match=message) as caught:
        load_pools(tmp_path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_name_that_is_no_subject_token_is_refused(tmp_path):
    write(tmp_path, "My Pool", 'platform = "cpu"\nlanguages = ["cpp"]\n')
    with pytest.raises(PoolError, match="name = 'My Pool'"):
        load_pools(tmp_path)
