//! The packages that are attached by default.
//!
//! R copies on change, so a function cannot change its arguments, except those with identity.

pub(super) const TABLE: &str = "
# evaluates its arguments at once
c print invisible list paste paste0 cat sum length identity suppressWarnings suppressMessages : fresh forces
system.time max min mean is.null nchar format toupper tolower as.numeric as.character as.integer : fresh forces
stopifnot message as.vector unlist rev sort order unique which any all range abs sqrt exp round seq : fresh forces
is.na is.function is.character is.numeric head tail summary str names nrow ncol dim data.frame matrix : fresh forces
cbind rbind rep factor as.factor table return structure force isTRUE isFALSE nlevels levels vapply : fresh forces
as.data.frame as.matrix as.list as.logical library require numeric character logical integer vector : fresh forces
suppressPackageStartupMessages capture.output quietly : fresh forces
# values with identity
new.env globalenv environment as.environment parent.frame parent.env emptyenv baseenv topenv sys.function : reference
list2env url file gzfile textConnection rawConnection socketConnection : reference
# random numbers
set.seed RNGkind : fresh seeds
rnorm runif rbinom rpois rexp rgamma rbeta rt rchisq rf rcauchy rgeom rhyper rlogis rlnorm rnbinom : fresh draws
rweibull rwilcox rsignrank rmultinom sample sample.int kmeans simulate arima.sim r2dtable rWishart : fresh draws
# files
read.csv read.table read.delim read.csv2 readLines readRDS scan read.fwf file.exists list.files dir : fresh file-read
file.info file.size read.dcf readBin readChar fread count.fields dir.exists Sys.glob : fresh file-read
write.csv write.table writeLines saveRDS save save.image dump dput sink write file.copy file.remove : fresh file-write
file.rename file.create dir.create unlink file.append writeBin writeChar pdf png jpeg svg tiff bmp : fresh file-write
download.file : fresh network file-write
# channels
setwd : fresh cwd
getwd normalizePath : fresh cwd-read
Sys.setenv Sys.unsetenv : fresh env-write
Sys.getenv : fresh env-read
Sys.time Sys.Date date proc.time : fresh time
system system2 shell pipe : fresh process
readline readLines.stdin : fresh input
options Sys.setlocale Sys.setlanguage palette par layout op.par : fresh options
getOption : fresh options-read
plot lines points abline hist barplot boxplot curve legend axis text title polygon segments arrows : fresh device
image contour persp pairs matplot mosaicplot pie plot.new plot.window mtext rect grid box rug : fresh device
dev.off dev.new dev.set graphics.off plot.default layout.show stars symbols coplot qqnorm qqline : fresh device
setClass setGeneric setMethod setValidity setRefClass setClassUnion setAs removeMethod setIs : reference class-table
registerS3method trace untrace : fresh class-table
# columns or variables
with within subset transform : fresh mask
aggregate lm glm nls loess aov t.test wilcox.test xtabs model.matrix model.frame : fresh mask
# functions given are called
lapply sapply Map Filter Reduce mapply tapply outer Vectorize do.call apply rapply eapply : fresh calls
optimize optim optimise uniroot integrate nlm nlminb Find Position by ave sweep : fresh calls
tryCatch withCallingHandlers try : fresh calls
";
