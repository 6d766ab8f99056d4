"""The shape functions of definitions that ONNX has too tell what ONNX's own inference tells.

Usage: onnx_test.py PROGRAM, which prints a line of JSON per node. Skipped (77) without Debian's python3-onnx."""
import json
import os
import subprocess
import sys

try:
    import onnx
except ImportError:
    # The package is of Debian's own Python, which need not be the first on PATH.
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3", "-B"] + sys.argv)
    print("skipped: python3-onnx is not installed (./dev test unit installs it)")
    sys.exit(77)
from onnx import TensorProto, helper, shape_inference

DTYPES = {"f32": TensorProto.FLOAT, "i64": TensorProto.INT64, "i32": TensorProto.INT32, "boolean": TensorProto.BOOL,
          "bool": TensorProto.BOOL}
# The last versions with these as attributes instead of inputs, as weft has them.
OPSET = {"Split": 11, "ReduceSum": 11, "Dropout": 10}


def value_info(name, type_):
    return helper.make_tensor_value_info(name, DTYPES[type_["dtype"]], type_["shape"])


def model_of(case):
    attributes = dict(case["attributes"])
    inputs = [value_info(f"x{i}", type_) for i, type_ in enumerate(case["inputs"]) if type_]
    names = [f"x{i}" if type_ else "" for i, type_ in enumerate(case["inputs"])]
    initializers = []
    if case["op"] == "Reshape":
        shape = attributes.pop("shape")
        initializers.append(helper.make_tensor("shape", TensorProto.INT64, [len(shape)], shape))
        names.append("shape")
    attributes.pop("num_outputs", None)
    outputs = [f"y{i}" for i in range(len(case["outputs"]))]
    node = helper.make_node(case["op"], names, outputs, **attributes)
    graph = helper.make_graph([node], "one", inputs, [], initializers)
    opset = helper.make_opsetid("", OPSET.get(case["op"], 17))
    return helper.make_model(graph, opset_imports=[opset])


def inferred(case):
    model = shape_inference.infer_shapes(model_of(case), check_type=True, strict_mode=True)
    types = {info.name: info.type.tensor_type for info in model.graph.value_info}
    for i in range(len(case["outputs"])):
        type_ = types[f"y{i}"]
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in type_.shape.dim]
        yield type_.elem_type, sizes if type_.HasField("shape") else "no shape"


def main():
    lines = subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout.splitlines()
    *cases, last = map(json.loads, lines)
    wrong = 0
    for case in cases:
        ours = [(DTYPES[type_["dtype"]], type_["shape"]) for type_ in case["outputs"]]
        theirs = list(inferred(case))
        if ours != theirs:
            wrong += 1
            print(f"{case['op']} {case['attributes']} of {case['inputs']}: weft {ours}, ONNX {theirs}")
    missing = set(last["definitions"]) - {case["op"] for case in cases}
    if missing:
        print(f"not compared: {sorted(missing)}")
    print(f"{len(cases)} nodes compared with ONNX {onnx.__version__}, {wrong} differ")
    return 1 if wrong or missing or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
