"""The notebook of the book runs from its first cell to its last."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import unittest
from pathlib import Path

from .network import folder_of_programs

HERE = Path(__file__).resolve().parent
NOTEBOOK = HERE.parents[2] / "docs" / "src" / "notebooks" / "first-study.ipynb"
NEEDED = ("pandas", "matplotlib", "nbclient", "nbformat", "ipykernel")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]


@unittest.skipIf(MISSING, f"the notebook needs {', '.join(MISSING)}: pip install them")
@unittest.skipUnless(folder_of_programs(), "set ROOST_PROGRAMS to the folder of the programs: target/debug")
class Notebook(unittest.TestCase):
    def test_every_cell_runs(self) -> None:
        nbformat = importlib.import_module("nbformat")
        nbclient = importlib.import_module("nbclient")
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        self.assertTrue(all(not cell.get("outputs") for cell in notebook.cells), "outputs are not kept in git")
        os.environ["PYTHONPATH"] = str(HERE.parent)
        os.environ["MPLBACKEND"] = "agg"
        os.environ["ROOST_PROGRAMS"] = str(folder_of_programs())
        with tempfile.TemporaryDirectory() as folder:
            client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}})
            client.execute()


if __name__ == "__main__":
    unittest.main()
