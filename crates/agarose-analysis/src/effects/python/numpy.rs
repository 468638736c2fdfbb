//! numpy.

pub(super) const TABLE: &str = "
# everything that is not below makes a new array, and fills out= if it is given
* : fresh out
asarray asanyarray ascontiguousarray asfortranarray atleast_1d atleast_2d atleast_3d broadcast_to : view
ravel reshape transpose squeeze swapaxes moveaxis rollaxis expand_dims split array_split hsplit vsplit : view
dsplit diagonal real imag flip fliplr flipud rot90 broadcast_arrays meshgrid nditer ndenumerate : view
lib.stride_tricks.* require frombuffer from_dlpack array ma.* : view
copyto place put putmask put_along_axis fill_diagonal : immutable m0
add.at subtract.at multiply.at divide.at maximum.at minimum.at logical_or.at logical_and.at : immutable m0
apply_along_axis apply_over_axes vectorize frompyfunc fromfunction piecewise : view calls
nan_to_num : fresh out
random.seed random.set_state : immutable seeds
random.shuffle : immutable m0 draws
random.default_rng random.RandomState random.Generator random.SeedSequence random.PCG64 : fresh
random.* : fresh draws
load loadtxt genfromtxt fromfile memmap : fresh file-read
save savez savez_compressed savetxt : immutable file-write
set_printoptions seterr seterrcall setbufsize : fresh options
printoptions errstate get_printoptions geterr : fresh
float64 float32 float16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool_ str_ datetime64 : immutable
timedelta64 shape ndim size allclose array_equal array_equiv isscalar iscomplexobj may_share_memory : immutable
testing.* : immutable
";
