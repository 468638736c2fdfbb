# Frames between the worker and its supervisor: two little-endian u32 lengths, a JSON object, bytes.

protocol <- 1L
max_head <- 8 * 1024^2
max_body <- 256 * 1024^2

wire_in <- NULL
wire_out <- NULL
own_pid <- Sys.getpid()

# Opens the wire anew with descriptors that programs do not inherit ("e"); answers the inherited ones.
open_wire <- function() {
  numbers <- c(Sys.getenv("AGAROSE_WIRE_IN"), Sys.getenv("AGAROSE_WIRE_OUT"))
  paths <- paste0("/dev/fd/", numbers)
  wire_in <<- file(paths[1], "reb", raw = TRUE)
  wire_out <<- file(paths[2], "web", raw = TRUE)
  Sys.unsetenv(c("AGAROSE_WIRE_IN", "AGAROSE_WIRE_OUT"))
  as.integer(numbers)
}

# Ends the worker, which cannot work without its wire, with the reason on stderr.
die <- function(reason) {
  cat("agarose worker: ", reason, "\n", file = stderr(), sep = "")
  base_quit("no", 70L, FALSE)
}

read_exactly <- function(count, at_boundary = FALSE) {
  parts <- list()
  got <- 0
  while (got < count) {
    part <- readBin(wire_in, "raw", min(count - got, 1048576))
    if (length(part) == 0) {
      if (at_boundary && got == 0) return(NULL)
      die("the supervisor's frame ends early")
    }
    parts[[length(parts) + 1L]] <- part
    got <- got + length(part)
  }
  if (length(parts) == 1L) parts[[1L]] else do.call(c, parts)
}

u32 <- function(bytes) sum(as.numeric(bytes) * c(1, 256, 65536, 16777216))
to_u32 <- function(n) as.raw(c(n %% 256, (n %/% 256) %% 256, (n %/% 65536) %% 256, n %/% 16777216))

# The next frame as list(head, body), or NULL when the supervisor has gone.
receive <- function() {
  lengths <- read_exactly(8, at_boundary = TRUE)
  if (is.null(lengths)) return(NULL)
  head_length <- u32(lengths[1:4])
  body_length <- u32(lengths[5:8])
  if (head_length > max_head || body_length > max_body) {
    die(sprintf("the supervisor's frame claims %.0f + %.0f bytes", head_length, body_length))
  }
  head <- if (head_length > 0) read_exactly(head_length) else raw()
  body <- if (body_length > 0) read_exactly(body_length) else raw()
  head <- tryCatch(from_json(rawToChar(head)), error = function(e) NULL)
  if (!is.list(head) || !is.character(head$t)) die("a frame of the supervisor is not a JSON object with a t")
  list(head = head, body = body)
}

# Writes one frame whole; interrupts are suspended around every call.
send <- function(head, body = raw()) {
  if (Sys.getpid() != own_pid) return(invisible())
  text <- charToRaw(enc2utf8(to_json(head)))
  tryCatch({
    writeBin(c(to_u32(length(text)), to_u32(length(body)), text, body), wire_out)
    flush(wire_out)
  }, error = function(e) die(paste("could not write to the supervisor:", conditionMessage(e))))
  invisible()
}

log_line <- function(level, message) send(list(t = "log", level = level, message = cut_text(message, 10000)))

# UTF-8 whatever the text was; what is not valid becomes <xx>.
clean <- function(text) {
  text <- enc2utf8(as.character(text))
  bad <- !validUTF8(text)
  if (any(bad)) text[bad] <- iconv(text[bad], "UTF-8", "UTF-8", sub = "byte")
  text[is.na(text)] <- ""
  text
}

# The text, or its head and tail around a marker that says how much is missing.
cut_text <- function(text, limit) {
  text <- clean(text)
  size <- nchar(text, "chars", allowNA = TRUE)
  if (is.na(size) || size <= limit) return(text)
  keep <- max(limit - 50, 0)
  head <- keep %/% 2
  marker <- sprintf("\n[\u2026 %.0f characters left out \u2026]\n", size - keep)
  paste0(substr(text, 1, head), marker, substr(text, size - (keep - head) + 1, size))
}

escape <- function(text) {
  if (length(text) == 1L && !grepl("[^ -!#-\\[\\]-~]", text, perl = TRUE, useBytes = TRUE)) return(paste0("\"", text, "\""))
  text <- clean(text)
  text <- gsub("\\", "\\\\", text, fixed = TRUE)
  text <- gsub("\"", "\\\"", text, fixed = TRUE)
  if (any(grepl("[\001-\037\177]", text, perl = TRUE))) {
    text <- gsub("\n", "\\n", text, fixed = TRUE)
    text <- gsub("\t", "\\t", text, fixed = TRUE)
    text <- gsub("\r", "\\r", text, fixed = TRUE)
    for (code in c(1:8, 11, 12, 14:31)) {
      text <- gsub(rawToChar(as.raw(code)), sprintf("\\u%04x", code), text, fixed = TRUE)
    }
  }
  paste0("\"", text, "\"")
}

# A named list is an object, an unnamed one an array; strings, logicals and whole numbers besides.
to_json <- function(value) {
  if (is.list(value)) {
    parts <- vapply(value, to_json, "")
    if (is.null(names(value)) && !inherits(value, "object")) return(paste0("[", paste(parts, collapse = ","), "]"))
    if (length(value) == 0) return("{}")
    return(paste0("{", paste0(escape(names(value)), ":", parts, collapse = ","), "}"))
  }
  if (is.logical(value)) return(if (isTRUE(value)) "true" else "false")
  if (is.numeric(value)) return(sprintf("%.0f", value))
  escape(value)
}

# A small JSON reader for the supervisor's frames: tokens by one regular expression, then descent.
from_json <- function(text) {
  Encoding(text) <- "UTF-8"
  pattern <- "\"(?:[^\"\\\\]|\\\\.)*\"|[-+0-9.eE]+|true|false|null|[\\[\\]{},:]"
  tokens <- regmatches(text, gregexpr(pattern, text, perl = TRUE))[[1L]]
  at <- 0L
  take <- function() {
    at <<- at + 1L
    if (at > length(tokens)) stop("the JSON ends early")
    tokens[at]
  }
  value <- function(token = take()) {
    first <- substr(token, 1, 1)
    if (first == "{") {
      found <- list()
      token <- take()
      while (token != "}") {
        if (token == ",") token <- take()
        key <- unescape(token)
        if (take() != ":") stop("the JSON lacks a colon")
        found[[key]] <- value()
        token <- take()
      }
      found
    } else if (first == "[") {
      found <- list()
      token <- take()
      while (token != "]") {
        if (token == ",") token <- take()
        found[[length(found) + 1L]] <- value(token)
        token <- take()
      }
      found
    } else if (first == "\"") {
      unescape(token)
    } else {
      switch(token, true = TRUE, false = FALSE, null = NA, as.numeric(token))
    }
  }
  value()
}

unescape <- function(token) {
  text <- substr(token, 2, nchar(token) - 1L)
  if (!grepl("\\", text, fixed = TRUE)) return(text)
  pieces <- regmatches(text, gregexpr("\\\\u[0-9a-fA-F]{4}|\\\\.|[^\\\\]+", text, perl = TRUE))[[1L]]
  simple <- c(n = "\n", t = "\t", r = "\r", b = "\b", f = "\f")
  code <- NA
  out <- character()
  for (piece in pieces) {
    if (substr(piece, 1, 2) == "\\u") {
      unit <- strtoi(substr(piece, 3, 6), 16L)
      if (unit >= 0xD800 && unit < 0xDC00) {
        code <- unit
        next
      }
      if (!is.na(code) && unit >= 0xDC00 && unit < 0xE000) unit <- (code - 0xD800) * 1024 + (unit - 0xDC00) + 0x10000
      code <- NA
      piece <- intToUtf8(unit)
    } else if (substr(piece, 1, 1) == "\\") {
      second <- substr(piece, 2, 2)
      piece <- if (second %in% names(simple)) simple[[second]] else second
    }
    out <- c(out, piece)
  }
  paste(out, collapse = "")
}
