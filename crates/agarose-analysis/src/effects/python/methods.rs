//! Methods by name, on whatever has them: containers, strings, files, arrays, frames, estimators, figures.
//!
//! Only names whose effect is the same wherever they are common. A method that is not here may change its
//! receiver and its arguments.

pub(super) const TABLE: &str = "
# containers
append extend insert add update appendleft extendleft __setitem__ put put_nowait : fresh mself
clear remove discard reverse sort rotate __delitem__ subtract task_done : immutable mself
pop popitem popleft get_nowait setdefault : element mself
difference_update intersection_update symmetric_difference_update : immutable mself
move_to_end : immutable mself
get __getitem__ : element
items keys values : view
copy deepcopy __copy__ : view
count index __len__ __contains__ isdisjoint issubset issuperset : immutable
union intersection difference symmetric_difference most_common elements : holds
# strings and bytes
capitalize casefold center encode decode endswith expandtabs find format format_map isalnum isalpha : immutable
isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust : immutable
lower lstrip partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split : fresh
splitlines startswith strip swapcase title translate upper zfill hex : immutable
strftime isoformat timestamp total_seconds date weekday isoweekday : immutable
match fullmatch search findall sub subn finditer group groups groupdict span : fresh
# files, paths, connections
read readline readlines readinto __next__ send throw : fresh mself
write writelines seek truncate close flush : immutable mself
read_text read_bytes : immutable file-read
write_text write_bytes touch mkdir unlink rmdir rename symlink_to : immutable file-write
exists is_file is_dir stat iterdir glob rglob : iterator file-read
with_suffix with_name joinpath resolve absolute relative_to as_posix expanduser : immutable
cursor execute executemany executescript commit rollback fetchone fetchall fetchmany : fresh mself database
# arrays
sum mean std var min max prod argmin argmax argsort cumsum cumprod all any ptp trace dot round nonzero : fresh out
astype tolist tobytes item conj conjugate clip repeat choose compress searchsorted flatten : fresh
reshape ravel transpose view squeeze swapaxes diagonal T : view
fill itemset partition_ setflags resize setfield byteswap : immutable mself
zero_grad backward step load_state_dict requires_grad_ : fresh mself
detach cpu cuda numpy unsqueeze expand permute contiguous to : view
# frames and series
head tail describe info nunique unique value_counts isna isnull notna notnull memory_usage equals : fresh
groupby rolling expanding ewm resample agg aggregate apply applymap map transform pipe assign : view calls
merge join_frames concat pivot pivot_table melt stack unstack crosstab corr cov quantile median mode : fresh
query eval_frame filter nlargest nsmallest sample_frame select_dtypes xs loc iloc : view
rank diff pct_change shift cummax cummin abs mad skew kurt sem nth first last size ngroup : fresh
to_dict to_list to_numpy to_string to_frame to_records to_html to_markdown to_latex to_json : view
to_csv to_excel to_parquet to_pickle to_hdf to_feather to_sql savefig save to_file : immutable file-write
isin between duplicated str_get cat_codes idxmax idxmin combine_first where mask reindex_like align : view
drop dropna fillna drop_duplicates sort_values sort_index reset_index set_index rename reindex : view
rename_axis interpolate ffill bfill explode replace_frame squeeze_frame truncate_frame asfreq tz_localize : view
tz_convert to_period to_timestamp dot_frame iterrows itertuples iteritems sample nlargest_frame : view
# estimators
fit partial_fit fit_resample compile load_weights add_module register_buffer : same mself
fit_transform fit_predict : view mself
predict predict_proba predict_log_proba decision_function score transform inverse_transform : view
get_params get_feature_names_out summary parameters state_dict named_parameters children modules : view
set_params train eval : same mself
# figures
plot scatter bar barh hist boxplot pie imshow contour contourf errorbar fill_between step_plot stem : fresh mself device
axhline axvline axhspan axvspan text annotate legend grid colorbar tick_params add_patch add_artist : fresh mself device
set_title set_xlabel set_ylabel set_xlim set_ylim set_xticks set_yticks set_xticklabels : fresh mself device
set_yticklabels set set_aspect set_axis_off suptitle tight_layout subplots_adjust add_subplot : fresh mself device
add_axes twinx twiny invert_yaxis invert_xaxis margins autoscale set_visible set_size_inches : fresh mself device
add_collection add_line set_zlabel view_init plot_surface set_theta_zero_location set_rlabel_position : fresh mself device
show : immutable device
# generators of random numbers
random normal uniform integers choice standard_normal poisson binomial exponential permutation : fresh mself
rand randn randint random_sample multivariate_normal : fresh mself
shuffle : immutable mself m0
seed manual_seed : immutable mself
# threads and tasks
start submit : fresh mself background
acquire release wait notify set_result cancel shutdown : fresh mself
done running is_alive is_set locked qsize empty full : immutable
# logging and others
debug warning error critical exception log : immutable
add_argument add_handler addHandler setLevel setFormatter : fresh mself
hexdigest digest : immutable
";
