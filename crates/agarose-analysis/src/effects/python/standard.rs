//! The standard library, and the short names of modules that everybody uses.

/// Sorted by the short name.
pub(super) const CONVENTIONS: &[(&str, &str)] = &[
    ("bisect", "bisect"),
    ("collections", "collections"),
    ("copy", "copy"),
    ("csv", "csv"),
    ("functools", "functools"),
    ("gc", "gc"),
    ("glob", "glob"),
    ("heapq", "heapq"),
    ("itertools", "itertools"),
    ("json", "json"),
    ("logging", "logging"),
    ("math", "math"),
    ("matplotlib", "matplotlib"),
    ("mpl", "matplotlib"),
    ("np", "numpy"),
    ("numpy", "numpy"),
    ("os", "os"),
    ("pandas", "pandas"),
    ("pathlib", "pathlib"),
    ("pd", "pandas"),
    ("pickle", "pickle"),
    ("plt", "matplotlib.pyplot"),
    ("random", "random"),
    ("re", "re"),
    ("scipy", "scipy"),
    ("shutil", "shutil"),
    ("sklearn", "sklearn"),
    ("sm", "statsmodels.api"),
    ("sns", "seaborn"),
    ("statistics", "statistics"),
    ("string", "string"),
    ("subprocess", "subprocess"),
    ("sys", "sys"),
    ("tf", "tensorflow"),
    ("threading", "threading"),
    ("time", "time"),
    ("torch", "torch"),
    ("warnings", "warnings"),
];

pub(super) const TABLE: &str = "
math.* cmath.* operator.eq operator.lt statistics.* : immutable consumes
operator.add operator.itemgetter operator.attrgetter operator.mul operator.* : view
operator.setitem operator.delitem operator.iadd operator.iconcat operator.imul : view m0
random.seed random.setstate : immutable seeds
random.shuffle : immutable m0 draws
random.choice : element draws
random.sample random.choices : holds draws
random.Random random.SystemRandom : fresh
random.* : immutable draws
secrets.* uuid.* : immutable draws
heapq.heappush heapq.heapify heapq.heappushpop heapq.heapreplace : element m0
heapq.heappop : element m0
heapq.nlargest heapq.nsmallest heapq.merge : holds consumes
bisect.insort bisect.insort_left bisect.insort_right : immutable m0
bisect.* : immutable
copy.copy : view
copy.deepcopy : fresh
collections.Counter collections.OrderedDict collections.deque collections.defaultdict : holds consumes calls
collections.ChainMap collections.namedtuple : view
itertools.* : iterator consumes calls
functools.reduce : view consumes calls
functools.partial functools.lru_cache functools.cache functools.wraps functools.partialmethod : holds calls
functools.cached_property functools.singledispatch functools.total_ordering functools.cmp_to_key : holds
json.loads json.dumps pickle.dumps base64.* hashlib.* struct.* zlib.* binascii.* html.* textwrap.* : fresh
json.load : fresh m0 file-read
json.dump pickle.dump : immutable m1 file-write
pickle.load : fresh m0 file-read
csv.reader csv.DictReader : iterator
csv.writer csv.DictWriter : holds
re.* string.* unicodedata.* difflib.* fractions.* decimal.* numbers.* enum.* keyword.* token.* : fresh calls
decimal.setcontext decimal.getcontext : view options
datetime.datetime.now datetime.datetime.today datetime.datetime.utcnow datetime.date.today : immutable time
datetime.* calendar.* : immutable
time.time time.perf_counter time.monotonic time.process_time time.localtime time.gmtime time.ctime : immutable time
time.strftime time.time_ns time.perf_counter_ns : immutable time
time.sleep : immutable
os.getcwd : immutable cwd-read
os.chdir : immutable cwd
os.getenv os.environ.get : immutable env-read
os.putenv os.unsetenv os.environ.setdefault os.environ.update os.environ.pop : immutable env-write
os.listdir os.walk os.scandir os.stat os.path.exists os.path.isfile os.path.isdir os.path.getsize : fresh file-read
os.path.getmtime os.access glob.* fnmatch.* linecache.* : fresh file-read
os.path.* os.fspath os.getpid os.cpu_count os.getlogin os.uname os.sep os.linesep : immutable
os.remove os.unlink os.rename os.replace os.makedirs os.mkdir os.rmdir os.removedirs os.symlink : immutable file-write
os.link os.chmod os.chown os.utime os.truncate : immutable file-write
os.system os.popen os.kill os.fork os.spawnl os.spawnv os.execv os.startfile : fresh process
subprocess.* multiprocessing.* pexpect.* : fresh process
shutil.copy shutil.copyfile shutil.copytree shutil.move shutil.rmtree shutil.make_archive : immutable file-write
shutil.which shutil.disk_usage shutil.get_terminal_size : immutable
tempfile.* : fresh file-write
pathlib.* : immutable
io.StringIO io.BytesIO io.TextIOWrapper : fresh
zipfile.* tarfile.* gzip.open bz2.open lzma.open sqlite3.connect shelve.open dbm.open : iterator file-read
sys.exit : immutable
sys.path.append sys.path.insert sys.path.extend sys.path.remove : immutable search-path
sys.setrecursionlimit sys.settrace sys.setprofile : immutable options
sys.getsizeof sys.getrecursionlimit sys.getrefcount sys.intern sys.version sys.platform : immutable
sys.stdout.write sys.stderr.write sys.stdout.flush sys.stderr.flush : immutable
sys.stdin.read sys.stdin.readline : immutable input
getpass.getpass : immutable input
warnings.filterwarnings warnings.simplefilter warnings.resetwarnings : immutable options
warnings.warn warnings.catch_warnings : fresh
logging.basicConfig logging.disable logging.captureWarnings : immutable options
logging.* : view
locale.setlocale : immutable options
gc.* atexit.unregister faulthandler.* traceback.* pprint.* platform.* inspect.* types.* typing.* abc.* : view
dataclasses.* contextlib.* weakref.ref : view calls
threading.Thread threading.Timer concurrent.futures.* asyncio.create_task asyncio.ensure_future : holds background calls
threading.Lock threading.RLock threading.Event threading.Condition threading.Semaphore queue.* : fresh
asyncio.run asyncio.gather asyncio.wait asyncio.wait_for asyncio.sleep : view background
atexit.register signal.signal weakref.finalize sched.* : same background calls
urllib.parse.* : fresh
urllib.* http.* socket.* ftplib.* smtplib.* ssl.* : fresh network
argparse.* configparser.* : view
unittest.* doctest.* timeit.* cProfile.* profile.* pdb.* : view calls
";
