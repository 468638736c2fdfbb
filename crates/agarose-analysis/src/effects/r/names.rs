//! Names that the packages attached by default define (base, stats, utils, graphics, grDevices, methods,
//! datasets of R 4.2).

pub(super) const NAMES: &str = r##"
- -.Date -.POSIXt : :: ::: ! !.hexmode !.octmode != ? ...elt ...length ...names ..deparseOpts ..getNamespace
.amatch_bounds .amatch_costs .ArgsEnv .AutoloadEnv .axisPars .BaseNamespaceEnv .bincode .C .C_R_addTaskCallback
.C_R_getTaskCallbackNames .C_R_removeTaskCallback .cache_class .Call .Call.graphics .checkMFClasses .class2 .classEnv
.clipPath .col .colMeans .colSums .Date .debugMethod .decode_numeric_version .defineGroup .Defunct .deparseOpts
.Deprecated .detach .Device .Devices .devUp .difftime .DollarNames .doSortWrap .doTrace .doTracePrint .doWrap .dynLibs
.EmptyPrimitiveSkeletons .encode_numeric_version .expand_R_libs_env_var .External .External.graphics .External2
.F_dchdc .F_dqrcf .F_dqrdc2 .F_dqrqty .F_dqrqy .F_dqrrsd .F_dqrxb .F_dtrco .filled.contour .First.sys .format.zeros
.Fortran .GenericArgsEnv .getNamespace .getNamespaceInfo .getRequiredPackages .getRequiredPackages2 .getXlevels
.GlobalEnv .gt .gtn .handleSimpleError .hasSlot .Internal .isMethodDebugged .isMethodsDispatchOn .isOpen .kappa_tri
.knownS3Generics .kronecker .Last.value .LC.categories .leap.seconds .libPaths .Library .Library.site
.linearGradientPattern .lm.fit .Machine .make_numeric_version .makeMessage .mapply .mask .maskedMsg
.mergeExportMethods .mergeImportMethods .MFclass .nknots.smspl .noGenerics .NotYetImplemented .NotYetUsed
.OldClassesList .opIndex .Options .OptRequireMethods .packages .packageStartupMessage .Platform .popath .POSIXct
.POSIXlt .preformat.ts .pretty .Primitive .primTrace .primUntrace .radialGradientPattern .rmpkg .romans .row
.row_names_info .rowMeans .rowNamesDF<- .rowSums .RtangleCodeLabel .ruleIndex .S3_methods_table .S3method .S3methods
.S3PrimitiveGenerics .S4methods .Script .selectSuperClasses .set_row_names .setClipPath .setMask .setPattern
.ShortPrimitiveSkeletons .signalSimpleWarning .slotNames .standard_regexps .subset .subset2 .sys.timezone
.TAOCP1997init .tilingPattern .traceback .TraceWithMethods .tryResumeInterrupt .undebugMethod .untracedFunction
.useGroup .userHooksEnv .valid.factor .valueClassTest .vcov.aliased ( [ [.AsIs [.data.frame [.Date [.difftime [.Dlist
[.DLLInfoList [.factor [.hexmode [.listof [.noquote [.numeric_version [.octmode [.POSIXct [.POSIXlt [.simple.list
[.table [.warnings [[ [[.data.frame [[.Date [[.factor [[.numeric_version [[.POSIXct [[.POSIXlt [[<- [[<-.data.frame
[[<-.factor [[<-.numeric_version [[<-.POSIXlt [<- [<-.data.frame [<-.Date [<-.difftime [<-.factor [<-.numeric_version
[<-.POSIXct [<-.POSIXlt { @ @<- * *.difftime / /.difftime & &.hexmode &.octmode && %*% %/% %% %in% %o% %x% ^ + +.Date
+.POSIXt < <- <<- <= = == > >= | |.hexmode |.octmode || ~ $ $.DLLInfo $.package_version $<- $<-.data.frame abbreviate
ability.cov abline abs acf acf2AR acos acosh activeBindingFunction add.scope add1 addmargins addNA addNextMethod
addTaskCallback adist adjustcolor aggregate aggregate.data.frame aggregate.ts agrep agrepl AIC airmiles AirPassengers
airquality alarm alias alist all all.equal all.equal.character all.equal.default all.equal.environment
all.equal.envRefClass all.equal.factor all.equal.formula all.equal.function all.equal.language all.equal.list
all.equal.numeric all.equal.POSIXt all.equal.raw all.names all.vars allNames allowInterrupts anova ansari.test
anscombe any anyDuplicated anyDuplicated.array anyDuplicated.data.frame anyDuplicated.default anyDuplicated.matrix
anyNA anyNA.data.frame anyNA.numeric_version anyNA.POSIXlt aov aperm aperm.default aperm.table append apply approx
approxfun apropos ar ar.burg ar.mle ar.ols ar.yw aregexec Arg args argsAnywhere arima arima.sim arima0 arima0.diag
Arith ARMAacf ARMAtoMA array arrayInd arrows as as.array as.array.default as.call as.character as.character.condition
as.character.Date as.character.default as.character.error as.character.factor as.character.hexmode
as.character.numeric_version as.character.octmode as.character.POSIXt as.character.srcref as.complex as.data.frame
as.data.frame.array as.data.frame.AsIs as.data.frame.character as.data.frame.complex as.data.frame.data.frame
as.data.frame.Date as.data.frame.default as.data.frame.difftime as.data.frame.factor as.data.frame.integer
as.data.frame.list as.data.frame.logical as.data.frame.matrix as.data.frame.model.matrix as.data.frame.noquote
as.data.frame.numeric as.data.frame.numeric_version as.data.frame.ordered as.data.frame.POSIXct as.data.frame.POSIXlt
as.data.frame.raw as.data.frame.table as.data.frame.ts as.data.frame.vector as.Date as.Date.character as.Date.default
as.Date.factor as.Date.numeric as.Date.POSIXct as.Date.POSIXlt as.dendrogram as.difftime as.dist as.double
as.double.difftime as.double.POSIXlt as.environment as.expression as.expression.default as.factor as.formula
as.function as.function.default as.graphicsAnnot as.hclust as.hexmode as.integer as.list as.list.data.frame
as.list.Date as.list.default as.list.difftime as.list.environment as.list.factor as.list.function
as.list.numeric_version as.list.POSIXct as.list.POSIXlt as.logical as.logical.factor as.matrix as.matrix.data.frame
as.matrix.default as.matrix.noquote as.matrix.POSIXlt as.name as.null as.null.default as.numeric as.numeric_version
as.octmode as.ordered as.package_version as.pairlist as.person as.personList as.POSIXct as.POSIXct.Date
as.POSIXct.default as.POSIXct.numeric as.POSIXct.POSIXlt as.POSIXlt as.POSIXlt.character as.POSIXlt.Date
as.POSIXlt.default as.POSIXlt.factor as.POSIXlt.numeric as.POSIXlt.POSIXct as.qr as.raster as.raw as.relistable
as.roman as.single as.single.default as.stepfun as.symbol as.table as.table.default as.ts as.vector
as.vector.data.frame as.vector.factor as.vector.POSIXlt as<- asDateBuilt asin asinh askYesNo asMethodDefinition
asNamespace asOneSidedFormula aspell aspell_package_C_files aspell_package_R_files aspell_package_Rd_files
aspell_package_vignettes aspell_write_personal_dictionary_file asplit asS3 asS4 assign assignClassDef
assignInMyNamespace assignInNamespace assignMethodsMetaData assocplot atan atan2 atanh attach attachNamespace attenu
attitude attr attr.all.equal attr<- attributes attributes<- austres autoload autoloader available.packages ave axis
Axis axis.Date axis.POSIXct axisTicks axTicks backsolve balanceMethodsList bandwidth.kernel barplot barplot.default
bartlett.test baseenv basename beaver1 beaver2 besselI besselJ besselK besselY beta bibentry BIC bindingIsActive
bindingIsLocked bindtextdomain binom.test binomial biplot bitmap bitwAnd bitwNot bitwOr bitwShiftL bitwShiftR bitwXor
BJsales BJsales.lead blues9 bmp BOD body body<- box Box.test boxplot boxplot.default boxplot.matrix boxplot.stats
bquote break browseEnv browser browserCondition browserSetDebug browserText browseURL browseVignettes bug.report
builtins bw.bcv bw.nrd bw.nrd0 bw.SJ bw.ucv bxp by by.data.frame by.default bzfile c C c.Date c.difftime c.factor
c.noquote c.numeric_version c.POSIXct c.POSIXlt c.warnings cacheGenericsMetaData cacheMetaData cacheMethod cairo_pdf
cairo_ps cairoSymbolFont call callCC callGeneric callNextMethod canCoerce cancor capabilities capture.output cars
case.names casefold cat cbind cbind.data.frame cbind2 ccf cdplot ceiling changedFiles char.expand character charClass
charmatch charToRaw chartr check_tzones check.options checkAtAssignment checkCRAN checkSlotAssignment ChickWeight
chickwts chisq.test chkDots chol chol.default chol2inv choose chooseBioCmirror chooseCRANmirror chull CIDFont citation
cite citeNatbib citEntry citFooter citHeader class class<- classesToAM classLabel classMetaName className
clearPushBack clip close close.connection close.screen close.socket close.srcfile close.srcfilealias
closeAllConnections clrhash cm cm.colors cmdscale co.intervals co2 CO2 coef coefficients coerce coerce<- col col2rgb
colMeans colnames colnames<- colorConverter colorRamp colorRampPalette colors colorspaces colours colSums combn
commandArgs comment comment<- Compare compareVersion complete.cases completeClassDefinition completeExtends
completeSubclasses complex Complex computeRestarts conditionCall conditionCall.condition conditionMessage
conditionMessage.condition confint confint.default confint.lm conflictRules conflicts conformMethod Conj constrOptim
contour contour.default contourLines contr.helmert contr.poly contr.SAS contr.sum contr.treatment contrasts
contrasts<- contrib.url contributors convertColor convolve cooks.distance cophenetic coplot cor cor.test cos cosh
cospi count.fields cov cov.wt cov2cor covratio cpgram create.post crimtab crossprod Cstack_info cummax cummin cumprod
cumsum curlGetHeaders curve cut cut.Date cut.default cut.POSIXt cutree cycle D data data.class data.entry data.frame
data.matrix dataentry date dbeta dbinom dcauchy dchisq de de.ncols de.restore de.setup debug debugcall debugger
debuggingState debugonce decompose default.stringsAsFactors defaultDumpName defaultPrototype delayedAssign
delete.response deltat demo dendrapply densCols density density.default deparse deparse1 deriv deriv3 det detach
determinant determinant.matrix dev.capabilities dev.capture dev.control dev.copy dev.copy2eps dev.copy2pdf dev.cur
dev.flush dev.hold dev.interactive dev.list dev.new dev.next dev.off dev.prev dev.print dev.set dev.size dev2bitmap
devAskNewPage deviance deviceIsInteractive dexp df df.kernel df.residual DF2formula dfbeta dfbetas dffits dgamma dgeom
dget dhyper diag diag<- diff diff.Date diff.default diff.difftime diff.POSIXt diffinv difftime digamma dim
dim.data.frame dim<- dimnames dimnames.data.frame dimnames<- dimnames<-.data.frame dir dir.create dir.exists dirname
discoveries dist dlnorm dlogis dmultinom DNase dnbinom dnorm do.call dontCheck doPrimitiveMethod dotchart double
download.file download.packages dpois dput dQuote drop drop.scope drop.terms drop1 droplevels droplevels.data.frame
droplevels.factor dsignrank dt dummy.coef dummy.coef.lm dump dump.frames dumpMethod dumpMethods dunif duplicated
duplicated.array duplicated.data.frame duplicated.default duplicated.matrix duplicated.numeric_version
duplicated.POSIXlt duplicated.warnings dweibull dwilcox dyn.load dyn.unload dynGet eapply ecdf edit eff.aovlist
effects eigen el el<- elNamed elNamed<- emacs embed embedFonts empty.dump emptyenv emptyMethodsList enc2native
enc2utf8 encodeString Encoding Encoding<- end endsWith enquote env.profile environment environment<-
environmentIsLocked environmentName erase.screen errorCondition esoph estVar euro euro.cross eurodist EuStockMarkets
eval eval.parent evalOnLoad evalq evalqOnLoad evalSource example exists existsFunction existsMethod exp expand.grid
expand.model.frame expm1 expression extendrange extends externalRefMethod extractAIC extSoftVersion F factanal factor
factor.scope factorial faithful family fdeaths fft fifo file file_test file.access file.append file.choose file.copy
file.create file.edit file.exists file.info file.link file.mode file.mtime file.path file.remove file.rename file.show
file.size file.symlink fileSnapshot filled.contour filter Filter finalDefaultMethod find Find find.package findClass
findCRANmirror findFunction findInterval findLineNum findMethod findMethods findMethodSignatures findPackageEnv
findRestart findUnique fisher.test fitted fitted.values fivenum fix fixInNamespace fixPre1.8 fligner.test floor flush
flush.connection flush.console for force forceAndCall formalArgs Formaldehyde formals formals<- format format.AsIs
format.data.frame format.Date format.default format.difftime format.factor format.hexmode format.info
format.libraryIQR format.numeric_version format.octmode format.packageInfo format.POSIXct format.POSIXlt format.pval
format.summaryDefault formatC formatDL formatOL formatUL formula forwardsolve fourfoldplot frame freeny freeny.x
freeny.y frequency friedman.test ftable function functionBody functionBody<- gamma Gamma gaussian gc gc.time gcinfo
gctorture gctorture2 generic.skeleton get get_all_vars get0 getAllConnections getAllSuperClasses getAnywhere getCall
getCallingDLL getCallingDLLe getClass getClassDef getClasses getConnection getCRANmirrors getDataPart
getDLLRegisteredRoutines getDLLRegisteredRoutines.character getDLLRegisteredRoutines.DLLInfo getElement geterrmessage
getExportedValue getFromNamespace getFunction getGeneric getGenerics getGraphicsEvent getGraphicsEventEnv getGroup
getGroupMembers gethash getHook getInitial getLoadActions getLoadedDLLs getMethod getMethods getMethodsForDispatch
getMethodsMetaData getNamespace getNamespaceExports getNamespaceImports getNamespaceInfo getNamespaceName
getNamespaceUsers getNamespaceVersion getNativeSymbolInfo getOption getPackageName getParseData getParseText
getRefClass getRversion getS3method getSlots getSrcDirectory getSrcFilename getSrcLines getSrcLocation getSrcref
getTaskCallbackNames gettext gettextf getTxtProgressBar getValidity getwd gl glm glm.control glm.fit glob2rx
globalCallingHandlers globalenv globalVariables graphics.off gray gray.colors grconvertX grconvertY gregexec gregexpr
grep grepl grepRaw grey grey.colors grid grouping grSoftVersion gsub gzcon gzfile HairEyeColor Harman23.cor
Harman74.cor hasArg hashtab hasLoadAction hasMethod hasMethods hasName hasTsp hat hatvalues hcl hcl.colors hcl.pals
hclust head head.matrix heat.colors heatmap help help.request help.search help.start Hershey hist hist.default history
HoltWinters hsearch_db hsearch_db_concepts hsearch_db_keywords hsv I iconv iconvlist icuGetCollate icuSetCollate
identical identify identity if ifelse Im image image.default implicitGeneric importIntoEnv Indometh infert influence
influence.measures infoRDS inheritedSlotNames inherits initFieldArgs initialize initRefFields InsectSprays
insertClassMethods insertMethod insertSource install.packages installed.packages integer integrate interaction
interaction.plot interactive intersect intToBits intToUtf8 inverse.gaussian inverse.rle invisible invokeRestart
invokeRestartInteractively IQR iris iris3 is is.array is.atomic is.call is.character is.complex is.data.frame
is.double is.element is.empty.model is.environment is.expression is.factor is.finite is.function is.hashtab
is.infinite is.integer is.language is.leaf is.list is.loaded is.logical is.matrix is.mts is.na is.na.data.frame
is.na.numeric_version is.na.POSIXlt is.na<- is.na<-.default is.na<-.factor is.na<-.numeric_version is.name is.nan
is.null is.numeric is.numeric_version is.numeric.Date is.numeric.difftime is.numeric.POSIXt is.object is.ordered
is.package_version is.pairlist is.primitive is.qr is.R is.raster is.raw is.recursive is.relistable is.single
is.stepfun is.symbol is.table is.ts is.tskernel is.unsorted is.vector isa isatty isBaseNamespace isClass isClassDef
isClassUnion isdebugged isFALSE isGeneric isGrammarSymbol isGroup isIncomplete islands isNamespace isNamespaceLoaded
ISOdate ISOdatetime isOpen isoreg isRematched isRestart isS3method isS3stdGeneric isS4 isSealedClass isSealedMethod
isSeekable isSymmetric isSymmetric.matrix isTRUE isVirtualClass isXS3Class jitter JohnsonJohnson jpeg julian
julian.Date julian.POSIXt KalmanForecast KalmanLike KalmanRun KalmanSmooth kappa kappa.default kappa.lm kappa.qr
kernapply kernel kmeans knots kronecker kruskal.test ks.test ksmooth l10n_info La_library La_version La.svd labels
labels.default lag lag.plot LakeHuron languageEl languageEl<- lapply layout layout.show lazyLoad lazyLoadDBexec
lazyLoadDBfetch lbeta lchoose lcm ldeaths legend length length.POSIXlt length<- length<-.Date length<-.difftime
length<-.factor length<-.POSIXct length<-.POSIXlt lengths letters LETTERS levels levels.default levels<-
levels<-.factor lfactorial lgamma lh libcurlVersion library library.dynam library.dynam.unload licence license
LifeCycleSavings limitedLabels line linearizeMlist lines lines.default list list.dirs list.files list2DF list2env
listFromMethods listFromMlist lm lm.fit lm.influence lm.wfit load loadedNamespaces loadhistory loadingNamespaceInfo
loadings loadMethod loadNamespace Loblolly local localeToCharset locator lockBinding lockEnvironment loess
loess.control loess.smooth log log10 log1p log2 logb Logic logical logLik loglin longley lower.tri lowess ls ls.diag
ls.print ls.str lsf.str lsfit lynx mad mahalanobis maintainer make.link make.names make.packages.html make.rgb
make.socket make.unique makeActiveBinding makeARIMA makeClassRepresentation makeExtends makeGeneric makeMethodsList
makepredictcall makePrototypeFromClassDef makeRweaveLatexCodeRunner makeStandardGeneric manova mantelhaen.test Map
maphash mapply margin.table marginSums mat.or.vec match match.arg match.call match.fun matchSignature Math
Math.data.frame Math.Date Math.difftime Math.factor Math.POSIXt Math2 matlines matplot matpoints matrix mauchly.test
max max.col mcnemar.test mdeaths mean mean.Date mean.default mean.difftime mean.POSIXct mean.POSIXlt median
median.default medpolish mem.maxNSize mem.maxVSize memCompress memDecompress memory.limit memory.profile memory.size
menu merge merge.data.frame merge.default mergeMethods message metaNameUndo method.skeleton MethodAddCoerce methods
methodSignatureMatrix MethodsList MethodsListSelect methodsPackageMetaName mget min mirror2html missing missingArg Mod
mode mode<- model.extract model.frame model.frame.default model.matrix model.matrix.default model.matrix.lm
model.offset model.response model.tables model.weights modifyList month.abb month.name monthplot months months.Date
months.POSIXt mood.test morley mosaicplot mostattributes<- mtcars mtext mtfrm mtfrm.default multipleClasses mvfft
n2mfrow na.action na.contiguous na.exclude na.fail na.omit na.pass names names.POSIXlt names<- names<-.POSIXlt
namespaceExport namespaceImport namespaceImportClasses namespaceImportFrom namespaceImportMethods napredict naprint
naresid nargs nchar nclass.FD nclass.scott nclass.Sturges ncol NCOL Negate new new.env new.packages newBasic
newClassRepresentation newEmptyObject news next NextMethod nextn ngettext nhtemp Nile nlevels nlm nlminb nls
nls.control NLSstAsymptotic NLSstClosestX NLSstLfAsymptote NLSstRtAsymptote nobs noquote norm normalizePath nottem npk
nrow NROW nsl nullfile numeric numeric_version numericDeriv numhash numToBits numToInts nzchar object.size objects
occupationalStatus offset old.packages oldClass oldClass<- OlsonNames on.exit oneway.test open open.connection
open.srcfile open.srcfilealias open.srcfilecopy Ops Ops.data.frame Ops.Date Ops.difftime Ops.factor
Ops.numeric_version Ops.ordered Ops.POSIXt optim optimHess optimise optimize options Orange OrchardSprays order
order.dendrogram ordered osVersion outer p.adjust p.adjust.methods pacf package_version package.skeleton packageDate
packageDescription packageEvent packageHasNamespace packageName packageNotFoundError packageSlot packageSlot<-
packageStartupMessage packageStatus packageVersion packBits page Pair pairlist pairs pairs.default pairwise.prop.test
pairwise.t.test pairwise.table pairwise.wilcox.test palette palette.colors palette.pals panel.smooth par parent.env
parent.env<- parent.frame parse parseNamespaceFile paste paste0 path.expand path.package pbeta pbinom pbirthday
pcauchy pchisq pcre_config pdf pdf.options pdfFonts person personList persp pexp pf pgamma pgeom phyper pi pico pictex
pie pipe PlantGrowth plclust plnorm plogis plot plot.default plot.design plot.ecdf plot.function plot.new
plot.spec.coherency plot.spec.phase plot.stepfun plot.ts plot.window plot.xy pmatch pmax pmax.int pmin pmin.int
pnbinom png pnorm points points.default poisson poisson.test poly polygon polym polypath polyroot pos.to.env Position
possibleExtends postscript postscriptFonts power power.anova.test power.prop.test power.t.test PP.test ppoints ppois
ppr prcomp precip predict predict.glm predict.lm preplot presidents pressure pretty pretty.default prettyNum princomp
print print.AsIs print.by print.condition print.connection print.data.frame print.Date print.default print.difftime
print.Dlist print.DLLInfo print.DLLInfoList print.DLLRegisteredRoutines print.eigen print.factor print.function
print.hexmode print.libraryIQR print.listof print.NativeRoutineList print.noquote print.numeric_version print.octmode
print.packageInfo print.POSIXct print.POSIXlt print.proc_time print.restart print.rle print.simple.list print.srcfile
print.srcref print.summary.table print.summary.warnings print.summaryDefault print.table print.warnings printCoefmat
prmatrix proc.time process.events prod profile prohibitGeneric proj promax prompt promptClass promptData promptImport
promptMethods promptPackage prop.table prop.test prop.trend.test proportions prototype provideDimnames ps.options
psigamma psignrank psmirnov pt ptukey punif Puromycin pushBack pushBackLength pweibull pwilcox q qbeta qbinom
qbirthday qcauchy qchisq qexp qf qgamma qgeom qhyper qlnorm qlogis qnbinom qnorm qpois qqline qqnorm qqplot qr qr.coef
qr.default qr.fitted qr.Q qr.qty qr.qy qr.R qr.resid qr.solve qr.X qsignrank qsmirnov qt qtukey quade.test quakes
quantile quarters quarters.Date quarters.POSIXt quartz quartz.options quartz.save quartzFont quartzFonts quasi
quasibinomial quasipoisson quit qunif quote Quote qweibull qwilcox R_system_version R.home R.version R.Version
R.version.string r2dtable rainbow randu range range.default rank rapply rasterImage raw rawConnection
rawConnectionValue rawShift rawToBits rawToChar rbeta rbind rbind.data.frame rbind2 rbinom rc.getOption rc.options
rc.settings rc.status rcauchy rchisq rcond Re read.csv read.csv2 read.dcf read.delim read.delim2 read.DIF read.fortran
read.ftable read.fwf read.socket read.table readBin readChar readCitationFile readline readLines readRDS readRenviron
Recall reconcilePropertiesAndPrototype recordGraphics recordPlot recover rect rect.hclust Reduce reformulate
reg.finalizer regexec regexpr registerImplicitGenerics registerS3method registerS3methods regmatches regmatches<-
relevel relist rematchDefinition remhash remove remove.packages removeClass removeGeneric removeMethod removeMethods
removeSource removeTaskCallback reorder rep rep_len rep.Date rep.difftime rep.factor rep.int rep.numeric_version
rep.POSIXct rep.POSIXlt repeat replace replayPlot replicate replications representation require requireMethods
requireNamespace resetClass resetGeneric reshape resid residuals residuals.glm residuals.lm restartDescription
restartFormals retracemem return returnValue rev rev.default rexp rf rgamma rgb rgb2hsv rgeom rhyper rivers rle rlnorm
rlogis rm rmultinom rnbinom RNGkind RNGversion rnorm rock round round.Date round.POSIXt row row.names
row.names.data.frame row.names.default row.names<- row.names<-.data.frame row.names<-.default rowMeans rownames
rownames<- rowsum rowsum.data.frame rowsum.default rowSums rpois Rprof Rprofmem RShowDoc rsignrank RSiteSearch
rsmirnov rstandard rstudent rt rtags Rtangle RtangleFinish RtangleRuncode RtangleSetup RtangleWritedoc rug runif
runmed RweaveChunkPrefix RweaveEvalWithOpt RweaveLatex RweaveLatexFinish RweaveLatexOptions RweaveLatexSetup
RweaveLatexWritedoc RweaveTryStop rweibull rwilcox rWishart S3Class S3Class<- S3Part S3Part<- sample sample.int sapply
save save.image savehistory savePlot saveRDS scale scale.default scan scatter.smooth screen screeplot sd se.contrast
sealClass search searchpaths Seatbelts seek seek.connection segments select.list selectMethod selectSuperClasses
selfStart seq seq_along seq_len seq.Date seq.default seq.int seq.POSIXt sequence sequence.default serialize
serverSocket sessionInfo set.seed setAs setBreakpoint setClass setClassUnion setDataPart setdiff setEPS setequal
setGeneric setGenericImplicit setGraphicsEventEnv setGraphicsEventHandlers setGroupGeneric sethash setHook setIs
setLoadAction setLoadActions setMethod setNames setNamespaceInfo setOldClass setPackageName setPrimitiveMethods setPS
setRefClass setReplaceMethod setRepositories setSessionTimeLimit setTimeLimit setTxtProgressBar setValidity setwd
shapiro.test show showClass showConnections showDefault showExtends showMethods showMlist shQuote sigma sign
signalCondition signature SignatureMethod signif sigToEnv simpleCondition simpleError simpleMessage simpleWarning
simplify2array simulate sin single sinh sink sink.number sinpi sleep slice.index slot slot<- slotNames slotsFromS3
smooth smooth.spline smoothEnds smoothScatter socketAccept socketConnection socketSelect socketTimeout solve
solve.default solve.qr sort sort.default sort.int sort.list sort.POSIXlt sortedXyData source spec.ar spec.pgram
spec.taper spectrum spineplot spline splinefun splinefunH split split.data.frame split.Date split.default
split.POSIXct split.screen split<- split<-.data.frame split<-.default sprintf sqrt sQuote srcfile srcfilealias
srcfilecopy srcref SSasymp SSasympOff SSasympOrig SSbiexp SSD SSfol SSfpl SSgompertz SSlogis SSmicmen SSweibull stack
stack.loss stack.x stackloss standardGeneric Stangle stars start startsWith stat.anova state.abb state.area
state.center state.division state.name state.region state.x77 stderr stdin stdout stem step stepfun stl stop stopifnot
storage.mode storage.mode<- str str2expression str2lang strcapture strftime strheight stripchart strOptions strptime
strrep strsplit strtoi strtrim StructTS structure strwidth strwrap sub subset subset.data.frame subset.default
subset.matrix substitute substituteDirect substituteFunctionArgs substr substr<- substring substring<- sum summary
Summary summary.aov summary.connection summary.data.frame Summary.data.frame summary.Date Summary.Date summary.default
Summary.difftime summary.factor Summary.factor summary.glm summary.lm summary.manova summary.matrix
Summary.numeric_version Summary.ordered summary.POSIXct Summary.POSIXct summary.POSIXlt Summary.POSIXlt
summary.proc_time summary.srcfile summary.srcref summary.stepfun summary.table summary.warnings summaryRprof
sunflowerplot sunspot.month sunspot.year sunspots superClassDepth suppressForeignCheck suppressMessages
suppressPackageStartupMessages suppressWarnings supsmu suspendInterrupts svd svg Sweave SweaveHooks SweaveSyntaxLatex
SweaveSyntaxNoweb SweaveSyntConv sweep swiss switch symbols symnum sys.call sys.calls Sys.chmod Sys.Date sys.frame
sys.frames sys.function Sys.getenv Sys.getlocale Sys.getpid Sys.glob Sys.info sys.load.image Sys.localeconv sys.nframe
sys.on.exit sys.parent sys.parents Sys.readlink sys.save.image Sys.setenv Sys.setFileTime Sys.setLanguage
Sys.setlocale Sys.sleep sys.source sys.status Sys.time Sys.timezone Sys.umask Sys.unsetenv Sys.which system
system.file system.time system2 t T t.data.frame t.default t.test table tabulate tail tail.matrix tan tanh tanpi
tapply tar taskCallbackManager tcrossprod tempdir tempfile termplot terms terms.formula terrain.colors
testInheritedMethods testVirtual text text.default textConnection textConnectionValue Theoph tiff time timestamp
Titanic title toBibtex toeplitz toLatex tolower ToothGrowth topenv topo.colors toString toString.default toupper trace
traceback tracemem tracingState trans3d transform transform.data.frame transform.default treering trees trigamma
trimws trunc trunc.Date trunc.POSIXt truncate truncate.connection try tryCatch tryInvokeRestart tryNew ts ts.intersect
ts.plot ts.union tsdiag tsp tsp<- tsSmooth TukeyHSD txtProgressBar type.convert Type1Font typeof typhash UCBAdmissions
UKDriverDeaths UKgas unclass undebug undebugcall union unique unique.array unique.data.frame unique.default
unique.matrix unique.numeric_version unique.POSIXlt unique.warnings uniroot units units.difftime units<-
units<-.difftime unix.time unlink unlist unloadNamespace unlockBinding unname unRematchDefinition unserialize unsplit
unstack untar untrace untracemem unz unzip update update.default update.formula update.packages upgrade upper.tri url
url.show URLdecode URLencode USAccDeaths USArrests UScitiesD UseMethod USJudgeRatings USPersonalExpenditure uspop
utf8ToInt VADeaths validEnc validObject validSlotNames validUTF8 vapply var var.test variable.names varimax vcov
vector Vectorize version vi View vignette volcano warnErrList warning warningCondition warnings warpbreaks weekdays
weekdays.Date weekdays.POSIXt weighted.mean weighted.residuals weights which which.max which.min while wilcox.test
window window<- with with.default withAutoprint withCallingHandlers within within.data.frame within.list withRestarts
withVisible women WorldPhones write write.csv write.csv2 write.dcf write.ftable write.socket write.table writeBin
writeChar writeLines WWWusage x11 X11 X11.options X11Font X11Fonts xedit xemacs xfig xinch xor xpdrows.data.frame
xspline xtabs xtfrm xtfrm.AsIs xtfrm.data.frame xtfrm.Date xtfrm.default xtfrm.difftime xtfrm.factor
xtfrm.numeric_version xtfrm.POSIXct xtfrm.POSIXlt xy.coords xyinch xyTable xyz.coords xzfile yinch zapsmall zip
"##;
