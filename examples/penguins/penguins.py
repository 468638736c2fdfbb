# %% [markdown]
# # What does a penguin weigh?
#
# 344 penguins of three species, measured on three islands of the Palmer Archipelago, Antarctica, in
# 2007 to 2009. Can body mass be told from flipper and bill, and how much of it is the species?
#
# Data: Palmer penguins (Horst, Hill and Gorman 2020; Gorman, Williams and Fraser 2014), CC0.

# %% Imports
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

rng = np.random.default_rng(2007)
colours = {"Adelie": "#c8553d", "Chinstrap": "#6a4c93", "Gentoo": "#1b7f79"}

# %% Read the data
here = next(place for place in (Path(), Path("examples/penguins")) if (place / "penguins.csv").exists())
raw = pd.read_csv(here / "penguins.csv")
raw.head()

# %% What is missing
missing = raw.isna().sum()
missing[missing > 0]

# %% Keep what was measured whole
penguins = raw.dropna().reset_index(drop=True)
print(f"{len(penguins)} of {len(raw)} penguins were measured whole")
penguins.groupby("species").size()

# %% Describe the species
measures = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
penguins.groupby("species")[measures].agg(["mean", "std"]).round(1)

# %% Draw flipper against mass
figure, axes = plt.subplots(figsize=(7, 5))
for species, group in penguins.groupby("species"):
    axes.scatter(group.flipper_length_mm, group.body_mass_g, s=18, alpha=0.7, color=colours[species], label=species)
axes.set_xlabel("flipper length (mm)")
axes.set_ylabel("body mass (g)")
axes.legend(title="species")
figure.tight_layout()
plt.show()

# %% Draw the masses of each species
figure, axes = plt.subplots(figsize=(7, 4))
bins = np.arange(2500, 6500, 200)
for species, group in penguins.groupby("species"):
    axes.hist(group.body_mass_g, bins=bins, alpha=0.6, color=colours[species], label=species)
axes.set_xlabel("body mass (g)")
axes.set_ylabel("penguins")
axes.legend(title="species")
figure.tight_layout()
plt.show()

# %% Fit by least squares
features = pd.DataFrame(
    {
        "intercept": 1.0,
        "flipper_length_mm": penguins.flipper_length_mm,
        "bill_depth_mm": penguins.bill_depth_mm,
        "male": (penguins.sex == "male").astype(float),
        "chinstrap": (penguins.species == "Chinstrap").astype(float),
        "gentoo": (penguins.species == "Gentoo").astype(float),
    }
)
mass = penguins.body_mass_g.to_numpy(float)


def fit(rows):
    """The coefficients of least squares on some rows."""
    return np.linalg.lstsq(features.to_numpy()[rows], mass[rows], rcond=None)[0]


model = pd.Series(fit(np.arange(len(mass))), index=features.columns)
model.round(1)

# %% How good it is
predicted = features.to_numpy() @ model.to_numpy()
residuals = mass - predicted
r_squared = 1 - residuals.var() / mass.var()
print(f"R² = {r_squared:.3f}, residual standard deviation = {residuals.std():.0f} g")

# %% How sure it is: bootstrap
rounds = 400
draws = np.empty((rounds, len(model)))
for n in range(rounds):
    draws[n] = fit(rng.integers(0, len(mass), len(mass)))
    if (n + 1) % 100 == 0:
        print(f"{n + 1} of {rounds} resamples", flush=True)
interval = np.percentile(draws, [2.5, 97.5], axis=0).T
pd.DataFrame(interval, index=model.index, columns=["2.5 %", "97.5 %"]).assign(estimate=model).round(1)

# %% Try it on penguins that it has not seen
folds = rng.permutation(len(mass)) % 5
errors = []
for fold in range(5):
    seen, unseen = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
    guess = features.to_numpy()[unseen] @ fit(seen)
    errors.append(np.sqrt(np.mean((mass[unseen] - guess) ** 2)))
    print(f"fold {fold + 1}: off by {errors[-1]:.0f} g")
print(f"on average off by {np.mean(errors):.0f} g")

# %% Draw what the model says
figure, axes = plt.subplots(figsize=(6, 6))
for species, group in penguins.groupby("species"):
    axes.scatter(predicted[group.index], group.body_mass_g, s=18, alpha=0.7, color=colours[species], label=species)
limits = [mass.min() - 200, mass.max() + 200]
axes.plot(limits, limits, color="black", linewidth=1)
axes.set_xlabel("predicted body mass (g)")
axes.set_ylabel("measured body mass (g)")
axes.legend(title="species")
figure.tight_layout()
plt.show()
