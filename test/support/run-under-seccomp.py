"""Runs a command under a seccomp profile of the form of Docker's: run-under-seccomp.py PROFILE CAPABILITIES COMMAND...

CAPABILITIES are those of the container, with commas between them, or "-": a rule may be for containers that have one. As an engine does,
it leaves out what this machine has no such call for.
"""

import json
import os
import sys

import seccomp

profile_file, capabilities, *command = sys.argv[1:]
held = set() if capabilities == "-" else set(capabilities.split(","))
with open(profile_file, encoding="utf-8") as file:
    profile = json.load(file)

compared = {"SCMP_CMP_EQ": seccomp.EQ, "SCMP_CMP_MASKED_EQ": seccomp.MASKED_EQ}


def action(name, errno):
    return {"SCMP_ACT_ALLOW": seccomp.ALLOW, "SCMP_ACT_ERRNO": seccomp.ERRNO(errno)}[name]


def argument(index, value, op, valueTwo=0):
    if op == "SCMP_CMP_MASKED_EQ":
        return seccomp.Arg(index, compared[op], value, valueTwo)
    return seccomp.Arg(index, compared[op], value)


rules = seccomp.SyscallFilter(defaction=action(profile["defaultAction"], profile["defaultErrnoRet"]))
for rule in profile["syscalls"]:
    if not set(rule.get("includes", {}).get("caps", [])) <= held:
        continue
    for name in rule["names"]:
        if seccomp.resolve_syscall(seccomp.Arch(), name) == -1:
            continue
        does = action(rule["action"], rule.get("errnoRet", 1))
        rules.add_rule(does, name, *[argument(**one) for one in rule.get("args", [])])
rules.load()
os.execvp(command[0], command)
