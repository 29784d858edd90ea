// Validates resources of operators: a JSON list on standard input; a JSON list of lists of faults on standard output, each
// empty where the resource is valid. The package's schemas judge types and patterns; they allow members that do not exist, which
// Kubernetes drops in silence, so the package's types judge those. A kind without a schema is a fault.

import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const PACKAGES = {
  "cert-manager.io": "cert-manager",
  "gateway.networking.k8s.io": "gateway-api",
  "keda.sh": "keda",
  "monitoring.coreos.com": "prometheus-operator",
};
const SOURCE = fileURLToPath(new URL("resources.ts", import.meta.url));
const OPTIONS = { module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2022, strict: true, noEmit: true, types: [] };

function module(resource) {
  return `@kubernetes-models/${PACKAGES[resource.apiVersion.split("/")[0]]}/${resource.apiVersion}/${resource.kind}`;
}

async function misfits(resource) {
  try {
    const { [resource.kind]: Model } = await import(module(resource));
    new Model(resource).validate();
  } catch (error) {
    return [error.message];
  }
  return [];
}

// The faults of each line of a program that has one resource in each line.
function unknown(resources) {
  const line = (resource, n) =>
    `export const r${n}: import("${module(resource)}").I${resource.kind} = ${JSON.stringify(resource)};`;
  const file = ts.createSourceFile(SOURCE, resources.map(line).join("\n"), OPTIONS.target);
  const host = ts.createCompilerHost(OPTIONS);
  const { getSourceFile } = host;
  host.getSourceFile = (name, ...rest) => (name === SOURCE ? file : getSourceFile.call(host, name, ...rest));
  const faults = resources.map(() => []);
  const program = ts.createProgram([SOURCE], OPTIONS, host);
  for (const { start, messageText } of program.getSemanticDiagnostics(program.getSourceFile(SOURCE)))
    faults[file.getLineAndCharacterOfPosition(start).line].push(ts.flattenDiagnosticMessageText(messageText, "\n"));
  return faults;
}

const resources = JSON.parse(await text(process.stdin));
const lines = unknown(resources);
const faults = resources.map(async (resource, n) => [...(await misfits(resource)), ...lines[n]]);
console.log(JSON.stringify(await Promise.all(faults)));
