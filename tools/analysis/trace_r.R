# Runs R programs with every variable of the session an active binding that notes gets and sets.
# Reads JSON lines of sources from a file, writes one line each: R (read before it is set), W, D (gone), error.
# Usage: Rscript trace_r.R PROGRAMS.jsonl OUT.jsonl
suppressMessages(library(jsonlite))
local({
  args <- commandArgs(TRUE)
  G <- globalenv()
  programs <- readLines(args[1])
  out <- file(args[2], "w", encoding = "UTF-8")
  values <- function() list(
    a = 3, b = 2, n = 0, xs = c(1, 5, 2), ys = c(4, 4), m = list(k = 1, l = 2), e = new.env(),
    f = function(q, w = 0) q, g = function(s) s, dat = data.frame(u = 1:3, v = c(2, 7, 1)))
  for (line in programs) {
    source <- fromJSON(line)
    rm(list = ls(G, all.names = TRUE), envir = G)
    L <- new.env()
    L$events <- character()
    given <- values()
    for (name in names(given)) local({
      value <- given[[name]]
      own <- name
      makeActiveBinding(own, function(v) {
        L$events <- c(L$events, paste0(if (missing(v)) "R:" else "W:", own))
        if (missing(v)) value else value <<- v
      }, G)
    })
    before <- ls(G, all.names = TRUE)
    L$events <- character()
    error <- tryCatch({
      setTimeLimit(elapsed = 5, transient = TRUE)
      for (expression in parse(text = source, keep.source = FALSE))
        utils::capture.output(suppressMessages(suppressWarnings(eval(expression, G))))
      ""
    }, error = function(problem) conditionMessage(problem))
    setTimeLimit()
    after <- ls(G, all.names = TRUE)
    set <- character()
    read <- character()
    for (event in L$events) {
      name <- substring(event, 3)
      if (startsWith(event, "W:")) set <- union(set, name)
      else if (!(name %in% set)) read <- union(read, name)
    }
    gone <- setdiff(before, after)
    writeLines(toJSON(list(R = as.list(read), W = as.list(setdiff(union(set, setdiff(after, before)), gone)),
      D = as.list(gone), error = error), auto_unbox = TRUE), out)
  }
  close(out)
})
