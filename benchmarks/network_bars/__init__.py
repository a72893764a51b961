"""Does DP-SGD disperse partial sensitivities? The network study of Müller et al. (2021), section 5.2, with controls.

Images of 5 × 5 pixels show a vertical or a horizontal bar in Gaussian noise. A small sigmoid network learns to tell them
apart by full-batch SGD and by DP-SGD, and every pixel's partial sensitivity of the loss is compared. Three measures, all exact:
`share` is ∂L/∂x_j over ‖∇L‖ and `gradient` the gradient of ‖∇L‖, with ∇ over the pixels; `joint` is ∂L/∂x_j over the norm of the
gradient by pixels, label and weights together, which is what the authors' notebook plots.

The paper leaves open how gradients are averaged, how weights start and how long training is: here gradients are averaged, weights
start uniform on [-1, 1], a black pixel is 1 and a white one 0, and training is looked at after several lengths. Controls that the
paper does not have separate what clipping does, what noise does, and what having learnt less does.

This is a study on made-up images with a fixed seed and not a release: its noise comes from NumPy, so that it can be repeated.
Noise that protects anybody comes from `pellucid.mechanisms` alone.
"""

from .network import APPENDIX, NOTEBOOK, Network, Privacy, Reading, gaussian_epsilon
from .study import CONTROLS, MARGIN, MEASURES, BarsStudy, Look, PixelStatistics, bars_study

__all__ = [
    "APPENDIX",
    "CONTROLS",
    "MARGIN",
    "MEASURES",
    "NOTEBOOK",
    "BarsStudy",
    "Look",
    "Network",
    "PixelStatistics",
    "Privacy",
    "Reading",
    "bars_study",
    "gaussian_epsilon",
]
