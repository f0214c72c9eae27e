// Package manifestkeys lists the keys of app manifests: what each is for, whether
// Cloud Foundry has it, and whether Ingot uses it. The parser, the client and
// docs/manifest.md share the list, so that unknown keys are reported the same way
// everywhere.
//
// The client links it, so it has to stay small.
//
// Imports: base/pattern, base/suggest, go.yaml.in/yaml/v2.
package manifestkeys
