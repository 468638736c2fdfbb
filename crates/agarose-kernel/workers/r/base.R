# What a cell finds in base R in place of what would wait for somebody, leave the kernel, close its
# wire, or lose an interrupt.

assign_in_base <- function(name, value) {
  where <- baseenv()
  if (exists(name, where, inherits = FALSE) && bindingIsLocked(name, where)) {
    unlockBinding(name, where)
    on.exit(lockBinding(name, where))
  }
  assign(name, value, where)
}

no_terminal <- function(what) {
  function(...) {
    stop(what, "() needs somebody at a terminal, and a cell has nobody", call. = FALSE)
  }
}

# An interrupt that came while nothing looked is raised.
raise_pending <- function() Sys.sleep(0)

# libc's system() has R ignore SIGINT while a program runs: an interrupt would end the program and not
# the cell. The shell around it leaves a mark when the signal comes, and then it is raised here. The
# `exit` keeps that shell from becoming the program.
marked <- function(command, mark) {
  if (!is.character(command) || length(command) != 1L || is.na(command)) return(command)
  note <- shQuote(paste0(": 2>/dev/null >", shQuote(mark)))
  paste0("trap ", note, " INT; /bin/sh -c -- ", shQuote(command), "; exit $?")
}

raise_marked <- function(mark) {
  if (file.exists(mark)) {
    unlink(mark)
    tools::pskill(Sys.getpid(), 2L)
  }
  raise_pending()
}

# `system` or `system2`, whose `.Internal(system(…))` is left in its own frame, for the sake of the
# calls that warnings name.
interruptible <- function(fun) {
  rewrite <- function(code) {
    if (!is.call(code)) return(code)
    if (identical(code[[1L]], quote(.Internal)) && is.call(code[[2L]]) && identical(code[[2L]][[1L]], quote(system))) {
      return(bquote({
        .(raise_pending)()
        mark <- .(tempfile)("interrupt-")
        if (!intern) command <- .(marked)(command, mark)
        status <- .(code)
        .(raise_marked)(mark)
        if (intern) status else invisible(status)
      }))
    }
    for (i in seq_along(code)) {
      if (is.call(code[[i]])) code[[i]] <- rewrite(code[[i]])
    }
    code
  }
  body(fun, envir = environment(fun)) <- rewrite(body(fun))
  fun
}

base_traceback <- base::.traceback

# What would wait for somebody, leave the kernel or close its wire does what it can in a cell.
replacements <- list(
  system = preceded(interruptible(base::system), bquote(.(note_change)())),
  system2 = preceded(interruptible(base::system2), bquote(.(note_change)())),
  .traceback = function(x = NULL, ...) {
    if (is.null(x)) return(base_traceback(running$traceback, ...))
    if (!is.numeric(x)) return(base_traceback(x, ...))
    # From the caller on, and without what lies below the cell.
    calls <- base_traceback(x + 1L, ...)
    calls[seq_len(max(length(calls) - running$depth, 0L))]
  },
  quit = function(save = "default", status = 0, runLast = TRUE) invokeRestart("agarose_quit", status),
  warnings = function(...) {
    last <- running$last_warnings
    if (length(last)) structure(last, dots = list(...), class = "warnings")
  },
  readline = no_terminal("readline"),
  browser = no_terminal("browser"),
  debug = no_terminal("debug"),
  debugonce = no_terminal("debugonce"),
  closeAllConnections = function() {
    kept <- c(0L, 1L, 2L, as.integer(wire_in), as.integer(wire_out))
    for (number in setdiff(as.integer(rownames(base::showConnections())), kept)) close(getConnection(number))
    close_sinks()
    invisible()
  }
)
replacements$q <- replacements$quit
replacements <- c(replacements, file_replacements)

replace_in_base <- function() {
  if (identical(get0("q", baseenv(), inherits = FALSE), replacements$q)) return(invisible())
  for (name in names(replacements)) assign_in_base(name, replacements[[name]])
  utils_menu <- asNamespace("utils")
  for (place in list(utils_menu, if ("package:utils" %in% search()) as.environment("package:utils"))) {
    if (is.null(place)) next
    if (bindingIsLocked("menu", place)) unlockBinding("menu", place)
    assign("menu", no_terminal("menu"), place)
  }
  explain <- function(x, ...) {
    stop("there is no host in R; call it from a Python cell", call. = FALSE)
  }
  for (method in c("$", "[[", "print")) registerS3method(method, "agarose_no_host", explain, baseenv())
}

# The base environment takes no new names, so this one stands before it on the search path.
attach_host <- function() {
  if (!"agarose" %in% search()) attach(list(host = structure(list(), class = "agarose_no_host")),
    pos = length(search()), name = "agarose", warn.conflicts = FALSE
  )
  shelf <<- as.environment("agarose")
}

shelf <- NULL

# As the prompt does: the last value has a name.
keep_last_value <- function(value) assign(".Last.value", value, shelf)

# Pages of help and the like are text among the output; printers' bold and underlining go.
show_pages <- function(files, header, title, delete.file) {
  for (i in seq_along(files)) {
    if (i <= length(header) && nzchar(header[i])) cat(header[i], "\n\n", sep = "")
    lines <- readLines(files[i], warn = FALSE)
    cat(gsub("[^\b]\b", "", clean(lines), perl = TRUE), sep = "\n")
  }
  if (isTRUE(delete.file)) unlink(files)
  invisible()
}

