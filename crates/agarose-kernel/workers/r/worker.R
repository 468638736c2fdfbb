# Entry of the R worker: one environment that user code does not see, then the loop.
#
# The worker's functions live below baseenv(), not in the global environment, so that nothing a
# cell assigns, masks or removes there reaches them. Base R only.

local({
  arguments <- commandArgs(FALSE)
  file <- sub("^--file=", "", grep("^--file=", arguments, value = TRUE)[1])
  directory <- dirname(file)
  worker <- new.env(parent = baseenv())
  # Its own functions are called a few times a cell: compiling them would only delay the first.
  worker$user_jit <- .Internal(enableJIT(0L))
  for (name in c("wire.R", "display.R", "files.R", "base.R", "cell.R")) {
    sys.source(file.path(directory, name), worker, keep.source = FALSE)
  }
  worker$serve()
})
