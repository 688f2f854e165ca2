"""sysbench-mongodb's transaction with the Java driver 2.13 (java/TransactionMix.java)."""

from program import TOOLS, program, run_as_flow

program("mongo-java-driver-2.13.3.jar")
run_as_flow([program("java"), "-cp", f"{TOOLS}/mongo-java-driver-2.13.3.jar:{TOOLS}/classes", "TransactionMix"])
