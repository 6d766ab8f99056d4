"""The shape functions of definitions that ONNX has too tell what ONNX's own inference tells, and their inputs, outputs,
attributes and defaults are ONNX's.

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

NEWEST = 17
# Attributes here that the version of ONNX compared with has as inputs, or only later.
OWN_ATTRIBUTES = {"Dropout": {"seed"}, "Reshape": {"shape"}, "Split": {"num_outputs"}}
# All inputs, outputs and attributes of ONNX's operators that weft's definitions don't have. Those that they have, but
# refuse other values of than ONNX's default: auto_pad, sequence_lens, P, weights.
NOT_TAKEN = {
    "GRU": {"activation_alpha", "activation_beta", "activations", "clip", "layout"},
    "LSTM": {"activation_alpha", "activation_beta", "activations", "clip", "input_forget", "layout"},
    "MaxPool": {"Indices", "dilations", "storage_order"},
    "Reshape": {"allowzero"},
    "SoftmaxCrossEntropyLoss": {"ignore_index"},
}


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
    opset = helper.make_opsetid("", OPSET.get(case["op"], NEWEST))
    return helper.make_model(graph, opset_imports=[opset])


def inferred(case):
    model = shape_inference.infer_shapes(model_of(case), check_type=True, strict_mode=True)
    types = {info.name: info.type.tensor_type for info in model.graph.value_info}
    for i in range(len(case["outputs"])):
        type_ = types[f"y{i}"]
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in type_.shape.dim]
        yield type_.elem_type, sizes if type_.HasField("shape") else "no shape"


def default_of(attribute):
    """None if it has none: the operator then says what follows from its absence."""
    if not attribute.default_value.name:
        return None
    value = helper.get_attribute_value(attribute.default_value)
    return value.decode() if isinstance(value, bytes) else value


def equal(ours, theirs):
    # ONNX has floats, weft doubles; an empty list, or a required value's, stands for no value.
    if theirs is None:
        return ours in ([], "", 0)
    return abs(ours - theirs) < 1e-7 * abs(theirs) if isinstance(theirs, float) else ours == theirs


def differences(name, ours):
    """Between weft's definition and ONNX's schema, as lines of text."""
    schema = onnx.defs.get_schema(name, OPSET.get(name, NEWEST), "")
    not_taken = set()
    for kind in ("inputs", "outputs"):
        theirs = [(one.name, one.option.name) for one in getattr(schema, kind)]
        taken = [one for one in theirs if one[0] in {mine[0] for mine in ours[kind]}]
        not_taken |= {one[0] for one in theirs if one not in taken and one[0] not in ours["attributes"]}
        # Outputs here are always made.
        mine = [tuple(one) for one in ours[kind]]
        if kind == "outputs":
            mine, taken = [one[0] for one in mine], [one[0] for one in taken]
        if mine != taken:
            yield f"{name}: {kind} {mine}, ONNX {theirs}"
    for key, mine in ours["attributes"].items():
        if key in OWN_ATTRIBUTES.get(name, ()):
            continue
        if key not in schema.attributes:
            yield f"{name}: ONNX has no attribute {key}"
            continue
        theirs = schema.attributes[key]
        if not equal(mine["value"], default_of(theirs)):
            yield f"{name}: {key} is {mine['value']!r} by default, ONNX {default_of(theirs)!r}"
        if theirs.required and not mine["required"] and mine["value"] != []:
            yield f"{name}: {key} is required in ONNX"
    not_taken |= set(schema.attributes) - set(ours["attributes"])
    if not_taken != NOT_TAKEN.get(name, set()):
        yield f"{name}: not taken are {sorted(not_taken)}, not {sorted(NOT_TAKEN.get(name, ()))}"


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
    unlike = [line for name, ours in last["definitions"].items() for line in differences(name, ours)]
    print("\n".join(unlike), end="\n" if unlike else "")
    missing = set(last["definitions"]) - {case["op"] for case in cases}
    if missing:
        print(f"not compared: {sorted(missing)}")
    print(f"{len(cases)} nodes compared with ONNX {onnx.__version__}, {wrong} differ")
    return 1 if wrong or unlike or missing or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
