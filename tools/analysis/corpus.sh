#!/usr/bin/env bash
# Gathers public cells to measure against, in the directory that AGAROSE_CORPUS names:
#   py_cells.jsonl   code cells of public notebooks (Debian documentation packages, PyPI source packages)
#   py_lib.jsonl     the modules of this Python's standard library, tests included
#   r_cells.jsonl    chunks of R scripts, demos, vignettes and tests of Debian's R packages
# Nothing is installed and nothing is run.
set -euo pipefail
out=${AGAROSE_CORPUS:?names a directory}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out/debs" "$out/sdists" "$out/tree"

python_debs="python-sklearn-doc python-statsmodels-doc python-skimage-doc python-sphinx-gallery-doc python-lmfit-doc
  python-xarray-doc python-nitime-doc"
r_debs="r-base-core r-cran-dplyr r-cran-data.table r-cran-ggplot2 r-cran-tidyr r-cran-purrr r-cran-tibble r-cran-stringr
  r-cran-lme4 r-cran-survival r-cran-mass r-cran-lattice r-cran-nlme r-cran-mgcv r-cran-boot r-cran-cluster r-cran-rpart
  r-cran-zoo r-cran-xts r-cran-rlang r-cran-glue r-cran-knitr r-cran-rmarkdown r-cran-testthat r-cran-r6 r-cran-magrittr
  r-cran-reshape2 r-cran-plyr r-cran-lubridate r-cran-forcats r-cran-broom r-cran-caret r-cran-e1071 r-cran-foreach
  r-cran-doparallel r-cran-future r-cran-globals r-cran-sp r-cran-sf r-cran-raster r-cran-igraph r-cran-vegan
  r-cran-ape r-cran-car r-cran-multcomp r-cran-sandwich r-cran-lmtest r-cran-quantreg r-cran-mice r-cran-matrix"
sdists="holoviews==1.18.3 sktime==0.26.0 jupytext==1.16.1 nbformat==5.10.2 papermill==2.5.0 datashader==0.16.0"

cd "$out/debs"
for deb in $python_debs $r_debs; do
  ls "${deb}_"*.deb >/dev/null 2>&1 || apt-get download "$deb" >/dev/null 2>&1 || echo "not to be had: $deb" >&2
done
for deb in *.deb; do
  [ -d "$out/tree/${deb%.deb}" ] || dpkg-deb -x "$deb" "$out/tree/${deb%.deb}"
done
cd "$out/sdists"
for package in $sdists; do
  name=${package%%==*}
  ls "$name"-*.tar.gz >/dev/null 2>&1 ||
    pip download --quiet --no-deps --no-binary "$name" "$package" >/dev/null 2>&1 ||
    echo "not to be had: $package" >&2
done
for archive in *.tar.gz; do
  [ -f "$archive" ] || continue
  mkdir -p "$out/tree/${archive%.tar.gz}" && tar -xzf "$archive" -C "$out/tree/${archive%.tar.gz}"
done
python3 "$here/cells.py" "$out"
