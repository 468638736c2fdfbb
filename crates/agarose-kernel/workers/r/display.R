# Values and plots as displays.
#
# Plots are PNG. A cell draws on a device of its own that writes nowhere; what is on its page
# is shown when the next page begins, before later text where that can be known, and when the cell
# ends. A page that is drawn on after it was shown is shown again in its place, under its display id.

max_pages <- 50L

# The last value of a cell, in every form that `repr` has for its class where that package is installed;
# otherwise, and without a class, it is printed as at the prompt.
show_value <- function(value, last) {
  forms <- if (last && running$capture && sink.number() == 0L) rich_forms(value)
  if (length(forms) == 0L) return(print_value(value))
  bytes <- c(list(charToRaw(printed(value))), lapply(forms, charToRaw))
  for (i in seq_along(bytes)) {
    if (length(bytes[[i]]) > plots$max_bytes) {
      mime <- c("text/plain", names(forms))[i]
      bytes[[i]] <- charToRaw(sprintf("[too large to show: %s (%.0f bytes)]", mime, length(bytes[[i]])))
    }
  }
  parts <- Map(function(mime, one) list(mime = mime, len = length(one)), c("text/plain", names(forms)), bytes)
  send_display(list(
    t = "display", id = running$id, kind = "result", parts = unname(parts),
    metadata = structure(list(), class = "object")
  ), do.call(c, bytes))
}

# A display stands between what was written before it and what is written after.
send_display <- function(head, body) {
  flush(stdout())
  suspendInterrupts(send(head, body))
  await_reader()
}

# By MIME type. A form is only asked for if there is a method for the value's class: what `repr` makes
# of any vector says no more than the prompt.
rich_forms <- function(value) {
  classes <- if (is.object(value)) class(value) else if (is.matrix(value)) "matrix"
  # A recorded plot draws itself when it is printed.
  if (is.null(classes) || isS4(value) || "recordedplot" %in% classes) return(NULL)
  if (!requireNamespace("repr", quietly = TRUE)) return(NULL)
  forms <- list()
  for (form in c("html", "markdown", "latex")) {
    generic <- paste0("repr_", form)
    methods <- lapply(classes, function(one) utils::getS3method(generic, one, optional = TRUE, envir = asNamespace("repr")))
    if (all(vapply(methods, is.null, NA))) next
    made <- tryCatch(get(generic, asNamespace("repr"))(value), error = failed(paste0("repr::", generic, "() failed")))
    if (is.character(made) && length(made) == 1L && !is.na(made)) {
      forms[[paste0("text/", form)]] <- clean(made)
    }
  }
  forms
}

# What the prompt would print.
printed <- function(value) {
  kept <- file(open = "w+", encoding = "UTF-8")
  on.exit({
    if (sink.number() > 0L) sink()
    # An error says what came before it.
    cat(paste0(readLines(kept, warn = FALSE), "\n"), sep = "")
    close(kept)
  })
  sink(kept)
  print_value(value)
  sink()
  lines <- readLines(kept, warn = FALSE)
  close(kept)
  on.exit()
  paste(clean(lines), collapse = "\n")
}

plots <- new.env(parent = emptyenv())
plots$device <- 0L
plots$page <- 0L
plots$shown <- NULL
plots$dpi <- 100
plots$max_bytes <- 8 * 1024^2
plots$count <- 0L
plots$busy <- FALSE

open_page_device <- function(...) {
  grDevices::png("/dev/null", width = 7, height = 5, units = "in", res = plots$dpi, type = png_type())
  plots$device <- grDevices::dev.cur()
  grDevices::dev.control("enable")
  invisible()
}

png_type <- function() if (capabilities("cairo")) "cairo" else getOption("bitmapType", "Xlib")

is_ours <- function() plots$device > 1L && plots$device %in% grDevices::dev.list()

begin_plots <- function() {
  plots$page <- 0L
  plots$count <- 0L
  plots$shown <- NULL
  options(device = open_page_device)
}

# Runs before a page begins: what is on the one before is complete.
before_page <- function() {
  if (is_ours() && grDevices::dev.cur() == plots$device && isTRUE(graphics::par("page"))) turn_page()
}

before_grid_page <- function(...) {
  if (is_ours() && grDevices::dev.cur() == plots$device) turn_page()
}

turn_page <- function() {
  show_page()
  plots$page <- plots$page + 1L
  plots$shown <- NULL
}

# Shows the page of our device if something was drawn on it since it was shown.
show_page <- function() {
  if (is.null(running$id) || plots$busy || !is_ours() || Sys.getpid() != own_pid) return(invisible())
  plots$busy <- TRUE
  on.exit(plots$busy <- FALSE)
  tryCatch(draw_page(), error = failed("a plot could not be drawn"))
  invisible()
}

draw_page <- function() {
  back <- grDevices::dev.cur()
  grDevices::dev.set(plots$device)
  drawn <- grDevices::recordPlot()
  if (is.null(drawn[[1L]]) || length(drawn[[1L]]) == 0L) {
    grDevices::dev.set(back)
    return(invisible())
  }
  file <- tempfile(fileext = ".png", tmpdir = tempdir(check = TRUE))
  on.exit(unlink(file))
  grDevices::png(file, width = 7, height = 5, units = "in", res = plots$dpi, type = png_type())
  mine <- grDevices::dev.cur()
  tryCatch(grDevices::replayPlot(drawn), finally = {
    grDevices::dev.off(mine)
    if (back %in% grDevices::dev.list()) grDevices::dev.set(back)
  })
  size <- file.size(file)
  if (is.na(size)) return(invisible())
  bytes <- readBin(file, "raw", size)
  if (identical(bytes, plots$shown)) return(invisible())
  again <- !is.null(plots$shown)
  plots$shown <- bytes
  plots$count <- plots$count + !again
  if (plots$count > max_pages) {
    if (!again && plots$count == max_pages + 1L) {
      warn(sprintf("the cell drew more than %d pages; the rest is left out", max_pages))
    }
    return(invisible())
  }
  mime <- "image/png"
  if (size > plots$max_bytes) {
    bytes <- charToRaw(sprintf("[too large to show: image/png (%.0f bytes)]", size))
    mime <- "text/plain"
  }
  send_display(list(
    t = "display", id = running$id, kind = if (again) "update" else "display",
    display_id = sprintf("plot-%s-%d", substr(running$id, nchar(running$id) - 7L, nchar(running$id)), plots$page),
    parts = list(list(mime = mime, len = length(bytes))),
    metadata = structure(list(), class = "object")
  ), bytes)
  invisible()
}

# The cell's end: its last page is shown, and its device closed. Devices that it opened itself stay.
end_plots <- function() {
  if (!is_ours()) return(invisible())
  show_page()
  if (plots$device %in% grDevices::dev.list()) grDevices::dev.off(plots$device)
  plots$device <- 0L
  invisible()
}
