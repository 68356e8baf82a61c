#!/usr/bin/env node
import { start } from "../lib/start.mjs";

await start("holdfast");
