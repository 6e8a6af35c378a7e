"""What the machine and its accelerators are doing.

Every number comes from somebody else's driver or service, any of which may be absent, empty, wrong or hanging. So each
reading is a value or a reason, nothing raises, and whoever shows readings keeps the sampling in a process of its own
that can be killed: :class:`SamplerProcess` for a front end, and for a run ``python -m tpudeck.devices FOLDER``, which
appends a line to ``FOLDER/system.jsonl`` every ten seconds until its parent ends.

===============  ==================================================================================
``readings``     :class:`Sample` and :class:`Core`: what one look says
``host``         CPU and memory (psutil)
``gpu``          NVIDIA devices (NVML)
``inventory``    TPU chips on the PCI bus, and which processes hold them
``runtime``      duty cycle and memory of TPU devices, asked from the process that owns them (gRPC)
``tensorcore``   TensorCore utilisation, asked from libtpu in a child that may die
``sampler``      one look at all of it
``process``      the same, from another process
``peak``         how fast the CPU multiplies matrices
===============  ==================================================================================
"""

from tpudeck.devices.process import SamplerProcess
from tpudeck.devices.readings import Core, Host, Sample
from tpudeck.devices.sampler import Sampler, sample

__all__ = ["Core", "Host", "Sample", "Sampler", "SamplerProcess", "sample"]
