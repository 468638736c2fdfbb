# Runs cells in the global environment as the prompt would, one top-level expression after the other.

max_message <- 10000
# How often a cell waits until the supervisor has read its pipes, so that it sees what they and the
# displays say in its order: R cannot ask whether a pipe has been read.
max_flushes <- 2000L

running <- new.env(parent = emptyenv())
running$id <- NULL
base_quit <- base::quit
options_text <- list()
workspace <- NULL
utf8_locale <- "C.UTF-8"

serve <- function() suspendInterrupts({
  inherited <- open_wire()
  frame <- receive()
  if (is.null(frame)) base_quit("no", 0L, FALSE)
  hello <- frame$head
  if (hello$t != "hello" || !identical(hello$protocol, 1)) die("expected a hello with protocol 1")
  options_text <<- hello$options
  workspace <<- if (is.null(hello$workspace)) getwd() else hello$workspace
  setwd(workspace)
  if (!l10n_info()$`UTF-8`) suppressWarnings(Sys.setlocale("LC_CTYPE", "C.UTF-8"))
  utf8_locale <<- Sys.getlocale("LC_CTYPE")
  options(pager = show_pages, help_type = "text", help.ports = 0L)
  options(keep.source = TRUE, editor = no_terminal("edit"), browser = "false", menu.graphics = FALSE)
  if (is.numeric(options_text$figure_dpi)) plots$dpi <- options_text$figure_dpi
  if (is.numeric(options_text$max_display_bytes)) plots$max_bytes <- options_text$max_display_bytes
  replace_in_base()
  send(list(
    t = "ready", protocol = protocol, language = "r",
    version = paste(R.version$major, R.version$minor, sep = "."),
    executable = file.path(R.home("bin"), "R"), pid = own_pid, prefix = R.home(),
    packages_digest = packages_digest()
  ))
  # After `ready`, since loading that package takes a while.
  asNamespace("parallel")$closeFD(inherited)
  repeat {
    # What came while a cell waited for its reader.
    frame <- if (length(running$early)) running$early[[1L]] else receive()
    running$early <- running$early[-1L]
    if (is.null(frame)) break
    if (frame$head$t == "execute") {
      tryCatch(run(frame$head, frame$body), error = run_failed)
    } else if (frame$head$t == "shutdown") {
      break
    } else {
      log_line("warn", paste("unknown frame", frame$head$t))
    }
  }
  base_quit("no", 0L, TRUE)
})

# Whatever a cell left behind that breaks even the worker's own code: it has its one answer.
run_failed <- function(e) {
  options(expressions = 5000L)
  warn(paste("the worker could not finish the cell's record:", conditionMessage(e)))
  if (is.null(running$id)) return(invisible())
  if (is.null(running$error)) running$error <- list(name = "Error", message = "", traceback = "")
  send(list(
    t = "result", id = running$id, status = "error", interrupt_seen = running$seen, error = running$error,
    warnings = as.list(running$warnings)
  ))
  running$id <- NULL
}

# One cell, from `started` to `result`.
run <- function(head, source) {
  running$id <- head$id
  running$name <- if (is.null(head$name)) "<cell>" else head$name
  running$capture <- !isFALSE(head$capture)
  running$warnings <- character()
  running$deferred <- list()
  running$error <- NULL
  running$flushes <- 0L
  running$seen <- FALSE
  running$line <- NULL
  restore()
  discard_interrupts()
  began <- proc.time()
  if (running$capture) begin_plots()
  send(list(t = "started", id = running$id))
  begin_files(running$capture)
  status <- evaluate(source)
  if (Sys.getpid() != own_pid) leave_child()
  if (running$capture) {
    tryCatch(allowInterrupts(end_plots()), error = failed("plots could not be shown"), interrupt = interrupted)
  }
  close_sinks()
  used <- tryCatch(end_files(), error = failed("the cell's files could not be recorded"))
  spent <- proc.time() - began
  result <- list(t = "result", id = running$id, status = status, interrupt_seen = running$seen)
  result$error <- running$error
  if (is.list(used)) result <- c(result, used)
  result$usage <- list(
    wall_ms = round(spent[["elapsed"]] * 1000),
    cpu_ms = round(sum(spent[c("user.self", "sys.self", "user.child", "sys.child")], na.rm = TRUE) * 1000),
    peak_rss_kb = peak_rss()
  )
  if (length(running$warnings)) result$warnings <- as.list(running$warnings)
  running$id <- NULL
  flush(stdout())
  send(result)
}

warn <- function(text) {
  if (length(running$warnings) < 20L) running$warnings <- c(running$warnings, cut_text(text, 1000))
}

failed <- function(what) function(e) warn(paste0(what, ": ", conditionMessage(e)))
interrupted <- function(i) running$seen <- TRUE

# Parses and evaluates; the answer is the status. Errors leave their description in `running`.
evaluate <- function(source) {
  outcome <- "ok"
  calls <- NULL
  quit_value <- NULL
  visible <- NULL
  tryCatch(
    withRestarts(
      withCallingHandlers(
        {
          expressions <- parse_cell(source)
          references <- attr(expressions, "srcref")
          for (i in seq_along(expressions)) {
            running$line <- if (is.null(references)) NULL else references[[i]][1L]
            allowInterrupts({
              # As at the prompt: the value is printed if it is visible.
              .Internal(enableJIT(user_jit))
              # Below the cell are these calls, withVisible() and the two of eval().
              running$depth <- depth() + 3L
              visible <- withVisible(eval(expressions[[i]], globalenv()))
              raise_pending()
              keep_last_value(visible$value)
              if (visible$visible) show_value(visible$value, i == length(expressions))
              raise_pending()
            })
            user_jit <<- .Internal(enableJIT(0L))
            visible <- NULL
            end_of_expression()
          }
          running$line <- NULL
        },
        error = function(e) calls <<- sys.calls(),
        warning = on_warning,
        message = on_message
      ),
      agarose_quit = function(status) {
        outcome <<- "error"
        quit_value <<- status
      },
      abort = function() {
        outcome <<- "error"
        running$error <- list(name = "abort", message = "the cell jumped to the top level", traceback = "")
      }
    ),
    error = function(e) {
      options(expressions = 5000L)
      outcome <<- "error"
      running$error <- describe(e, calls)
    },
    interrupt = function(i) {
      outcome <<- "interrupted"
      running$seen <- TRUE
      running$error <- list(name = "interrupt", message = "", traceback = "")
    }
  )
  user_jit <<- max(user_jit, .Internal(enableJIT(0L)))
  if (!is.null(quit_value)) {
    running$error <- list(
      name = "quit", message = sprintf("the cell called q() with status %s; the kernel goes on", quit_value),
      traceback = "", exit = TRUE
    )
  }
  tryCatch(end_of_expression(), error = failed("deferred output failed"))
  outcome
}

# How many calls there are, also where a promise is evaluated.
depth <- function() length(sys.calls()) - 1L

parse_cell <- function(source) {
  if (any(source == 0L)) stop("the source of the cell has a NUL byte", call. = FALSE)
  text <- rawToChar(source)
  Encoding(text) <- "UTF-8"
  if (!validUTF8(text)) stop("the source of the cell is not UTF-8", call. = FALSE)
  lines <- strsplit(text, "\n", fixed = TRUE)[[1L]]
  parse(text = lines, keep.source = TRUE, srcfile = srcfilecopy(running$name, lines), encoding = "UTF-8")
}

# As the prompt does: `print` or `show` of a symbol in a scope below the user's, where methods are found.
print_value <- function(value) {
  scope <- new.env(parent = globalenv())
  scope$x <- value
  eval(if (isS4(value)) quote(show(x)) else quote(print(x)), scope)
}

end_of_expression <- function() {
  if (running$capture) show_page()
  if (length(running$deferred)) {
    deferred <- running$deferred
    running$deferred <- list()
    on_stderr(print_warnings(deferred))
  }
}

# Conditions, as they are raised.

on_message <- function(m) {
  if (running$capture) show_page()
  on_stderr(clean(conditionMessage(m)))
  invokeRestart("muffleMessage")
}

on_warning <- function(w) {
  level <- getOption("warn")
  if (!is.numeric(level) || length(level) != 1L || is.na(level)) level <- 0
  # From 2 on it is R itself that turns it into an error.
  if (level >= 2) return(invisible())
  if (level < 0) invokeRestart("muffleWarning")
  if (level >= 1) {
    if (running$capture) show_page()
    call <- own_call(conditionCall(w))
    at <- if (is.null(call)) "" else paste0(" in ", deparse(call, nlines = 1L)[1L], " ")
    on_stderr(paste0("Warning", at, ": ", cut_text(conditionMessage(w), max_message), "\n"))
  } else if (length(running$deferred) < warnings_kept()) {
    running$deferred <- c(running$deferred, list(w))
  }
  if (!is.null(findRestart("muffleWarning"))) invokeRestart("muffleWarning")
}

# How many deferred warnings are kept, as the prompt keeps them.
warnings_kept <- function() {
  kept <- getOption("nwarnings")
  if (is.numeric(kept) && length(kept) == 1L && !is.na(kept)) min(max(kept, 50), 10000) else 50
}

print_warnings <- function(warnings) {
  calls <- lapply(warnings, function(w) own_call(conditionCall(w)))
  names(calls) <- vapply(warnings, function(w) cut_text(conditionMessage(w), max_message), "")
  running$last_warnings <- calls
  count <- length(calls)
  if (count <= 10L) {
    lines <- utils::capture.output(base::print.warnings(structure(calls, class = "warnings")))
    return(paste0(paste0(lines, collapse = "\n"), "\n"))
  }
  if (count < warnings_kept()) return(sprintf("There were %d warnings (use warnings() to see them)\n", count))
  sprintf("There were %d or more warnings (use warnings() to see the first %d)\n", count, count)
}

# Text on stderr, in its order with what is on stdout.
on_stderr <- function(text) {
  await_reader()
  cat(text, file = stderr(), sep = "")
  await_reader()
}

# Waits until all that was written so far has been read.
await_reader <- function() {
  flush(stdout())
  if (is.null(running$id) || running$flushes >= max_flushes || Sys.getpid() != own_pid) return(invisible())
  running$flushes <- running$flushes + 1L
  suspendInterrupts({
    send(list(t = "flush", id = running$id))
    repeat {
      frame <- receive()
      if (is.null(frame)) die("the supervisor has gone")
      if (frame$head$t == "flushed") break
      running$early <- c(running$early, list(frame))
    }
  })
  invisible()
}

# An error as the result frame says it.
describe <- function(e, calls) {
  message <- cut_text(conditionMessage(e), max_message)
  call <- own_call(conditionCall(e))
  said <- if (is.null(call)) paste0("Error: ", message) else {
    paste0("Error in ", cut_text(paste(deparse(call, nlines = 1L), collapse = " "), 200), " : ", message)
  }
  shown <- user_calls(calls)
  running$traceback <- rev(shown)
  lines <- vapply(shown, function(one) cut_text(deparse(one, nlines = 1L)[1L], 200), "")
  places <- vapply(shown, place, "")
  listed <- if (length(lines)) paste0(rev(seq_along(lines)), ": ", rev(lines), rev(places))
  # A deep recursion says the same hundreds of times.
  if (length(listed) > 60L) {
    listed <- c(listed[1:30], sprintf("[\u2026 %d calls left out \u2026]", length(listed) - 60L), utils::tail(listed, 30L))
  }
  limit <- if (is.numeric(options_text$max_traceback_chars)) options_text$max_traceback_chars else 200000
  kind <- setdiff(class(e), c("simpleError", "error", "condition", "rlang_error"))
  found <- list(
    name = if (length(kind)) cut_text(kind[1L], 1000) else "Error",
    message = message,
    traceback = cut_text(paste(c(said, if (length(listed)) c("Traceback (innermost first):", listed)), collapse = "\n"), limit)
  )
  line <- error_line(e, shown)
  if (length(line) == 1L && !is.na(line)) found$line <- line
  found
}

# A condition's call, unless it is the worker's own: at the prompt it would have none.
own_call <- function(call) {
  mine <- is.call(call) && (identical(call, quote(eval(expressions[[i]], globalenv()))) ||
    identical(call, quote(withVisible(eval(expressions[[i]], globalenv())))) ||
    (identical(call[[1L]], quote(parse)) && identical(call$srcfile, quote(srcfilecopy(running$name, lines)))))
  if (mine) NULL else call
}

# The calls of user code: after the worker's own eval(), before what raising the error added.
user_calls <- function(calls) {
  if (is.null(calls)) return(list())
  first <- 0L
  for (i in seq_along(calls)) {
    if (identical(calls[[i]][[1L]], quote(withVisible)) || identical(calls[[i]][[1L]], quote(print_value))) {
      first <- i
      break
    }
  }
  if (first == 0L) return(list())
  kept <- as.list(calls)[-seq_len(first)]
  # withVisible(eval(expr, globalenv())) is two frames of eval.
  while (length(kept) && identical(kept[[1L]][[1L]], quote(eval))) kept <- kept[-1L]
  drop <- vapply(kept, function(one) {
    is.call(one) && (is.function(one[[1L]]) || identical(one[[1L]], quote(.handleSimpleError)) || identical(one[[1L]], quote(h)))
  }, NA)
  kept[!drop]
}

place <- function(call) {
  reference <- attr(call, "srcref")
  if (is.null(reference)) return("")
  file <- attr(reference, "srcfile")
  name <- if (is.environment(file)) file$filename else NULL
  if (is.null(name) || !nzchar(name)) "" else sprintf("  at %s:%d", name, reference[1L])
}

error_line <- function(e, calls) {
  if (is.null(running$line)) {
    # The cell does not parse: the message says where, as in `<text>:2:5: unexpected …`.
    match <- regmatches(conditionMessage(e), regexec(":(\\d+):\\d+:", conditionMessage(e)))[[1L]]
    return(if (length(match) == 2L) as.integer(match[2L]) else NULL)
  }
  line <- running$line
  for (call in calls) {
    reference <- attr(call, "srcref")
    file <- if (is.null(reference)) NULL else attr(reference, "srcfile")
    if (is.environment(file) && identical(file$filename, running$name)) line <- reference[1L]
  }
  line
}

# Between cells.

restore <- function() {
  if (is.null(tryCatch(getwd(), error = function(e) NULL))) {
    setwd(workspace)
    warn(paste("the working directory was gone; the cell ran in", workspace))
  }
  if (!l10n_info()$`UTF-8`) Sys.setlocale("LC_CTYPE", utf8_locale)
  options(expressions = max(getOption("expressions"), 500L))
  close_sinks()
  replace_in_base()
  attach_host()
  setHook("before.plot.new", NULL, "replace")
  setHook("before.plot.new", before_page, "replace")
  setHook("before.grid.newpage", before_grid_page, "replace")
}

close_sinks <- function() {
  while (sink.number() > 0L) sink()
  if (sink.number("message") != 2L) sink(type = "message")
}

# A SIGINT that came while nothing ran is nobody's.
discard_interrupts <- function() {
  tryCatch(allowInterrupts(Sys.sleep(0)), interrupt = function(i) NULL)
}

# A process that the cell forked came to the cell's end: it must not answer as well.
leave_child <- function() asNamespace("parallel")$mcexit(0L)

peak_rss <- function() {
  line <- grep("^VmHWM:", readLines("/proc/self/status", warn = FALSE), value = TRUE)
  if (length(line)) as.numeric(gsub("[^0-9]", "", line)) else 0
}

packages_digest <- function() {
  found <- character()
  for (library in .libPaths()) {
    for (package in list.files(library)) {
      described <- file.path(library, package, "DESCRIPTION")
      if (file.exists(described)) {
        version <- grep("^Version:", readLines(described, 40L, warn = FALSE), value = TRUE, useBytes = TRUE)
        found <- c(found, paste(package, version[1L]))
      }
    }
  }
  # A sum is enough to tell one library from another, and base R has no digest of text.
  bytes <- as.numeric(charToRaw(paste(sort(found, method = "radix"), collapse = "\n")))
  at <- seq_along(bytes)
  sums <- vapply(c(2147483647, 2147483629, 2147483587, 2147483579), function(prime) {
    sum((bytes + 1) * ((at * 48271) %% 65521 + at) %% prime) %% prime
  }, 0)
  paste(sprintf("%08x", as.integer(sums)), collapse = "")
}
