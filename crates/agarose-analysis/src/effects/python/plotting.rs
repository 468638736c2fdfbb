//! matplotlib, seaborn, plotly and others that draw.

pub(super) const TABLE: &str = "
matplotlib.* : fresh device
matplotlib.pyplot.* : fresh device
matplotlib.pyplot.savefig : immutable device file-write
matplotlib.pyplot.imread : fresh file-read
matplotlib.pyplot.rc matplotlib.rc matplotlib.use matplotlib.pyplot.style.use matplotlib.style.use : immutable options
matplotlib.pyplot.rcParams.update matplotlib.rcParams.update matplotlib.rcdefaults : immutable options
matplotlib.pyplot.switch_backend matplotlib.pyplot.ion matplotlib.pyplot.ioff matplotlib.pyplot.xkcd : immutable options
seaborn.* : fresh device
seaborn.set seaborn.set_theme seaborn.set_style seaborn.set_context seaborn.set_palette : immutable options
seaborn.load_dataset : fresh network
plotly.* : holds
altair.* : holds
bokeh.* : holds
bokeh.plotting.show bokeh.io.show : immutable device
IPython.display.* : holds
";
