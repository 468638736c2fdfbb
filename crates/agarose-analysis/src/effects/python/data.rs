//! pandas and its neighbours, scikit-learn, scipy, statsmodels, torch.

pub(super) const PANDAS: &str = "
* : fresh
DataFrame Series Index MultiIndex Categorical concat merge merge_asof merge_ordered : view
to_datetime to_numeric to_timedelta cut qcut get_dummies factorize pivot_table crosstab melt : view
read_csv read_table read_excel read_parquet read_json read_pickle read_hdf read_feather read_fwf : fresh file-read
read_html read_xml read_stata read_sas read_orc ExcelFile HDFStore : fresh file-read
ExcelWriter : fresh file-write
read_sql read_sql_query read_sql_table : fresh database
read_clipboard : fresh input
set_option reset_option options.* : immutable options
get_option : immutable options-read
option_context : fresh
testing.* isna isnull notna notnull : fresh
Timestamp Timedelta Period Interval NaT NA Timestamp.now Timestamp.today : immutable time
plotting.* : fresh device
";

pub(super) const OTHERS: &str = "
# scikit-learn: constructors hold what they are given, functions make new arrays
sklearn.* : holds
sklearn.datasets.fetch_* : fresh network
sklearn.utils.shuffle sklearn.model_selection.train_test_split sklearn.utils.resample : view draws
sklearn.model_selection.cross_val_score sklearn.model_selection.cross_validate : fresh draws
sklearn.base.clone sklearn.metrics.* sklearn.datasets.* sklearn.preprocessing.scale : fresh
sklearn.set_config : immutable options
scipy.* : view calls
scipy.stats.* scipy.special.* scipy.signal.* scipy.fft.* : fresh
scipy.io.loadmat scipy.io.wavfile.read : fresh file-read
scipy.io.savemat scipy.io.wavfile.write : immutable file-write
statsmodels.* : holds
statsmodels.datasets.* : fresh
xarray.* : holds
xarray.open_dataset xarray.load_dataset xarray.open_dataarray : fresh file-read
polars.* : view
polars.read_csv polars.read_parquet polars.scan_csv : fresh file-read
networkx.* : fresh
networkx.relabel_nodes networkx.compose : view
networkx.add_path networkx.add_cycle networkx.add_star networkx.set_node_attributes : immutable m0
networkx.set_edge_attributes networkx.freeze networkx.double_edge_swap : immutable m0
networkx.draw* networkx.draw networkx.draw_networkx networkx.draw_networkx_nodes : fresh device
networkx.draw_networkx_edges networkx.draw_networkx_labels networkx.draw_networkx_edge_labels : fresh device
sympy.* : immutable
skimage.* : view
skimage.io.imread skimage.data.* : fresh file-read
skimage.io.imsave : immutable file-write
cv2.* : view m0
cv2.imread : fresh file-read
cv2.imwrite : immutable file-write
cv2.cvtColor cv2.resize cv2.GaussianBlur cv2.threshold cv2.Canny : fresh
PIL.Image.open : fresh file-read
PIL.* : view
torch.manual_seed torch.cuda.manual_seed torch.cuda.manual_seed_all torch.seed : immutable seeds
torch.rand torch.randn torch.randint torch.randperm torch.bernoulli torch.multinomial torch.normal : fresh draws
torch.rand_like torch.randn_like torch.randint_like : fresh draws
torch.from_numpy torch.as_tensor torch.reshape torch.squeeze torch.unsqueeze torch.transpose torch.view : view
torch.tensor torch.zeros torch.ones torch.arange torch.linspace torch.eye torch.empty torch.full : fresh
torch.load : fresh file-read
torch.save : immutable file-write
torch.no_grad torch.inference_mode torch.device torch.is_tensor torch.cuda.is_available : immutable
torch.sum torch.mean torch.max torch.min torch.exp torch.log torch.sqrt torch.matmul torch.cat torch.stack : fresh out
torch.nn.init.* : same m0 draws
torch.nn.functional.* : view
torch.nn.utils.clip_grad_norm_ torch.nn.utils.clip_grad_value_ : fresh m0
torch.nn.* torch.optim.* torch.utils.data.* : holds draws
tensorflow.random.set_seed : immutable seeds
tensorflow.random.* : fresh draws
tensorflow.constant tensorflow.zeros tensorflow.ones tensorflow.convert_to_tensor : fresh
joblib.load : fresh file-read
joblib.dump : immutable file-write
tqdm.* : iterator
requests.* : fresh network
holoviews.* : holds
";
