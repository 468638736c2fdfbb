# Which files a cell read and wrote.
#
# Base R opens files through a few functions: they note what a cell opens. What was written besides
# is found by looking, once after the cell, for files of the workspace that changed since it began:
# their ctime, which no program can set. Everything is bounded, in number, in bytes and in time.

max_paths <- 256L
max_path_chars <- 1024L
max_remembered <- 10000L
max_hashed_file <- 16 * 1024^2
max_hashed <- 64 * 1024^2
walk_seconds <- 0.3
walk_entries <- 50000
# A cell that took this long may have written from native code, which nothing here announces.
long_cell_seconds <- 0.005
# The system stamps files with a clock that lags by up to a tick, of 10 ms at most.
tick_seconds <- 0.0105

secret_words <- c("credential", "secret", "password", "passwd", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")
secret_names <- c(".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", "kubeconfig", ".renviron")
secret_endings <- "\\.(pem|key|p12|pfx|keystore|jks|ppk|kdbx|asc|gpg)$"
secret_directories <- "/\\.(ssh|aws|gnupg|kube|docker|azure)/"

files <- new.env(parent = emptyenv())
files$recording <- FALSE

begin_files <- function(capture) {
  files$stamp <- Sys.time()
  files$began <- proc.time()[["elapsed"]]
  files$read <- character()
  files$written <- character()
  # Opened without saying what for; a connection does it later.
  files$opened <- character()
  files$changes <- FALSE
  if (is.null(files$excluded)) {
    inside <- paste0(workspace, "/")
    places <- c(R.home(), .libPaths(), tempdir(), "/usr", "/lib", "/lib64", "/etc")
    places <- paste0(normalizePath(places, mustWork = FALSE), "/")
    files$excluded <- c(places[!startsWith(inside, places)], "/proc/", "/sys/", "/dev/")
  }
  files$recording <- capture
}

# Notes a file that a function of base R is about to open.
note_file <- function(description, open = "") {
  if (!files$recording || !is.character(description) || length(description) != 1L || is.na(description)) return()
  if (description %in% c("", "stdin", "clipboard", "X11_primary", "X11_secondary", "X11_clipboard")) return()
  path <- if (startsWith(description, "file://")) substring(description, 8L) else description
  if (grepl("^[a-zA-Z]+://", path)) return()
  path <- absolute(path)
  if (is.null(path) || any(startsWith(path, files$excluded))) return()
  open <- if (is.character(open) && length(open) == 1L) open else ""
  use <- if (open == "") "opened" else if (startsWith(open, "r") && !grepl("+", open, fixed = TRUE)) "read" else "written"
  # A file that is opened to be read and is not there was not read.
  if (use == "written") files$changes <- TRUE else if (use == "read" && !file.exists(path)) return()
  if (length(files[[use]]) < max_remembered && !(path %in% files[[use]])) files[[use]] <- c(files[[use]], path)
}

# What is about to change files without opening them here, as programs do: their time alone tells, so
# the clock of the files must have passed the start of the cell.
note_change <- function() {
  if (!files$recording || files$changes) return()
  files$changes <- TRUE
  probe <- tempfile("clock-")
  on.exit(unlink(probe))
  while (as.numeric(Sys.time() - files$stamp, units = "secs") < tick_seconds) {
    if (!base_file_create(probe, showWarnings = FALSE) || isTRUE(file.info(probe)$ctime > files$stamp)) break
    Sys.sleep(0.0005)
  }
}

base_file_create <- base::file.create

absolute <- function(path) {
  path <- path.expand(path)
  if (!startsWith(path, "/")) {
    here <- getwd()
    if (is.null(here)) return(NULL)
    path <- paste0(here, "/", path)
  }
  directory <- normalizePath(dirname(path), mustWork = FALSE)
  paste0(if (directory == "/") "" else directory, "/", basename(path))
}

# The function with something to be done first, in its own frame.
preceded <- function(fun, first) {
  body(fun, envir = environment(fun)) <- bquote({
    .(first)
    .(body(fun))
  })
  fun
}

file_replacements <- list()
for (name in c("file", "gzfile", "bzfile", "xzfile")) {
  file_replacements[[name]] <- preceded(get(name, baseenv()), bquote(.(note_file)(description, open)))
}
file_replacements$unz <- preceded(base::unz, bquote(.(note_file)(description, "rb")))
for (name in c("file.create", "file.rename", "file.symlink", "file.link")) {
  file_replacements[[name]] <- preceded(get(name, baseenv()), bquote(.(note_change)()))
}
note_copied <- function(from) {
  note_change()
  for (one in from[seq_len(min(length(from), max_paths))]) if (!dir.exists(one)) note_file(one, "rb")
}
file_replacements$file.copy <- preceded(base::file.copy, bquote(.(note_copied)(from)))
file_replacements$file.append <- preceded(base::file.append, bquote(.(note_copied)(file2)))

# The result's fields about files; nothing when there is nothing to say.
end_files <- function() {
  if (!files$recording) return(list())
  files$recording <- FALSE
  took <- proc.time()[["elapsed"]] - files$began
  budget <- if (files$changes) walk_seconds else if (took > long_cell_seconds) min(walk_seconds, max(0.02, took / 10)) else 0
  walked <- list(paths = character(), complete = TRUE)
  if (budget > 0) walked <- changed_files(budget)
  named <- unique(c(files$written, files$opened))
  changed <- named[is_changed(named, files$stamp - tick_seconds)]
  written <- unique(c(walked$paths, changed))
  read <- unique(c(files$read, setdiff(files$opened, changed)))
  if (!length(read) && !length(written)) return(list())
  uses <- describe_files(c(read[seq_len(min(length(read), max_paths))], written[seq_len(min(length(written), max_paths))]))
  reads <- seq_along(uses) <= min(length(read), max_paths)
  absent <- vapply(uses, is.null, NA)
  found <- list()
  if (any(reads & !absent)) found$files_read <- unname(uses[reads & !absent])
  if (any(!reads & !absent)) found$files_written <- unname(uses[!reads & !absent])
  found$files_counters <- list(
    read_seen = if (length(read) > max_paths) length(read) else length(found$files_read),
    written_seen = if (length(written) > max_paths) length(written) else length(found$files_written)
  )
  found
}

is_changed <- function(paths, since) {
  if (!length(paths)) return(logical())
  status <- file.info(paths, extra_cols = FALSE)
  !is.na(status$size) & !status$isdir & status$ctime > since
}

# Files of the workspace that changed since the cell began.
changed_files <- function(budget) {
  give_up <- proc.time()[["elapsed"]] + budget
  found <- character()
  left <- workspace
  entries <- 0
  while (length(left) && proc.time()[["elapsed"]] < give_up && entries < walk_entries) {
    here <- left[1L]
    left <- left[-1L]
    paths <- list.files(here, full.names = TRUE, all.files = TRUE, no.. = TRUE)
    if (!length(paths)) next
    entries <- entries + length(paths)
    names <- basename(paths)
    if ("pyvenv.cfg" %in% names || (".git" %in% names && here != workspace)) next
    status <- file.info(paths, extra_cols = FALSE)
    folders <- paths[status$isdir %in% TRUE & !startsWith(names, ".") & !names %in% c("__pycache__", "node_modules", "renv")]
    links <- Sys.readlink(folders)
    left <- c(left, folders[is.na(links) | links == ""])
    found <- c(found, paths[status$isdir %in% FALSE & status$ctime > files$stamp])
  }
  list(paths = found[seq_len(min(length(found), max_remembered))], complete = !length(left))
}

# Each path as the result says it: its place, its size, its digest; NULL for what is no file.
describe_files <- function(paths) {
  inside <- startsWith(paths, paste0(workspace, "/"))
  shown <- ifelse(inside, substring(paths, nchar(workspace) + 2L), paths)
  masked <- is_secret(paths)
  status <- file.info(paths, extra_cols = FALSE)
  regular <- !is.na(status$size) & !status$isdir
  hashed <- which(regular & !masked & status$size <= max_hashed_file)
  hashed <- hashed[cumsum(status$size[hashed]) <= max_hashed]
  digests <- rep(NA_character_, length(paths))
  digests[hashed] <- sha256(paths[hashed])
  lapply(seq_along(paths), function(i) {
    if (masked[i]) return(list(path = clip(sub("[^/]*$", "***", shown[i])), masked = TRUE))
    if (!regular[i]) return(NULL)
    use <- list(path = clip(shown[i]), size = status$size[i])
    if (!is.na(digests[i])) use$sha256 <- digests[i]
    use
  })
}

clip <- function(path) {
  path <- clean(path)
  if (nchar(path) <= max_path_chars) path else paste0(substr(path, 1L, max_path_chars - 1L), "\u2026")
}

# The digests of files, or NA. R has a function for it from 4.5 on; before, the system's program.
sha256 <- function(paths) {
  if (!length(paths)) return(character())
  paths <- unique(paths)
  own <- if (getRversion() >= "4.5.0") asNamespace("tools")$sha256sum
  if (is.function(own)) return(unname(own(paths)))
  if (is.null(files$program)) files$program <- Sys.which("sha256sum")
  if (!nzchar(files$program)) return(rep(NA_character_, length(paths)))
  command <- paste(c(shQuote(files$program), "--", shQuote(paths), "2>/dev/null"), collapse = " ")
  lines <- suppressWarnings(base_system(command, intern = TRUE))
  # A name with a line break in it is written in another way, and then not found.
  lines <- lines[grepl("^[0-9a-f]{64} [ *]", lines, useBytes = TRUE)]
  found <- match(enc2utf8(paths), enc2utf8(substring(lines, 67L)))
  substr(lines[found], 1L, 64L)
}

base_system <- base::system

# Whether the names look as if the files held a secret.
is_secret <- function(paths) {
  names <- tolower(basename(paths))
  words <- strsplit(gsub("[-.]", "_", names), "_", fixed = TRUE)
  tokens <- vapply(words, function(one) any(c("token", "apikey") %in% one) || all(c("api", "key") %in% one), NA)
  worded <- Reduce(`|`, lapply(secret_words, grepl, names, fixed = TRUE))
  (names == ".env") | startsWith(names, ".env.") | endsWith(names, ".env") | names %in% secret_names |
    grepl(secret_endings, names) | (worded & !grepl("\\.(r|py|pub)$", names)) | tokens |
    grepl(secret_directories, paths)
}
