//! Packages beyond the default ones.

pub(super) const DPLYR: &str = "
filter mutate select arrange summarise summarize group_by transmute rename count distinct slice pull : fresh mask
add_count tally relocate top_n slice_head slice_tail slice_max slice_min slice_sample reframe rowwise : fresh mask
mutate_at mutate_if mutate_all summarise_at summarise_all summarise_if filter_at filter_all rename_with : fresh mask
group_by_at group_modify group_map across if_else case_when n_distinct between desc ungroup : fresh mask
left_join right_join inner_join full_join semi_join anti_join bind_rows bind_cols : fresh
pivot_longer pivot_wider gather spread separate unite nest unnest drop_na fill replace_na expand complete : fresh mask
extract crossing nesting hoist unnest_wider unnest_longer separate_rows : fresh mask
map map_dbl map_chr map_int map_lgl map_df map_dfr map_dfc map2 map2_dbl map2_chr pmap walk walk2 imap : fresh calls
keep discard reduce accumulate compose partial possibly safely quietly detect every some : fresh calls
group_vars n cur_group_id row_number : fresh
tibble tribble as_tibble : fresh mask
read_csv read_tsv read_delim read_rds read_lines read_excel read_file : fresh file-read
write_csv write_tsv write_rds write_lines write_file : fresh file-write
";

pub(super) const DATA_TABLE: &str = "
data.table as.data.table fread copy : reference
setDT setDF setkey setkeyv setnames setorder setorderv setattr setcolorder set setindex setindexv setnafill : reference m0
dcast melt rbindlist CJ SJ : reference mask
";

pub(super) const GGPLOT2: &str = "
aes aes_ facet_wrap facet_grid vars : fresh mask
ggplot qplot : fresh mask
ggsave : fresh file-write
theme_set theme_update : fresh options
";

pub(super) const OTHERS: &str = "
R6Class : reference
new_environment env child_env : reference
later : fresh background calls
future : reference background
dbConnect dbGetQuery dbSendQuery dbExecute dbWriteTable dbReadTable : fresh database
GET POST PUT DELETE curl_download request req_perform : fresh network
";
