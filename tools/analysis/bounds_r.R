# What codetools says of every cell: JSON lines of {ok, W (bound), V (variables), F (functions)}.
# Usage: Rscript bounds_r.R CELLS.jsonl OUT.jsonl
suppressMessages({library(jsonlite); library(codetools)})
args <- commandArgs(TRUE)
con <- file(args[1], "r", encoding = "UTF-8")
out <- file(args[2], "w", encoding = "UTF-8")
while (length(line <- readLines(con, 1))) {
  cell <- fromJSON(line, simplifyVector = FALSE)
  exprs <- tryCatch(parse(text = cell$src, keep.source = FALSE, encoding = "UTF-8"), error = function(e) NULL)
  if (is.null(exprs)) {
    writeLines(toJSON(list(ok = FALSE), auto_unbox = TRUE), out)
    next
  }
  bound <- tryCatch(findLocalsList(as.list(exprs)), error = function(e) character())
  f <- as.function(list(as.call(c(as.name("{"), as.list(exprs)))))
  globals <- tryCatch(findGlobals(f, merge = FALSE), error = function(e) list(functions = character(), variables = character()))
  # Every symbol anywhere: a read of what is not even mentioned is false.
  all <- unique(all.names(as.call(c(as.name("{"), as.list(exprs)))))
  writeLines(toJSON(list(ok = TRUE, W = as.list(bound), V = as.list(globals$variables), F = as.list(globals$functions),
    A = as.list(all)), auto_unbox = TRUE), out)
}
close(out)
