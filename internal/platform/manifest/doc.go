// Package manifest parses and checks app manifests, compares them with the
// current state (Diff), changes apps to what they describe (Apply), and writes
// an app as a manifest (Of). Applying twice changes nothing, and neither does
// applying a manifest written by Of.
//
// Manifests are YAML 1.1, as the clients of Cloud Foundry read them: there "yes"
// is true. It must not import the API or implementations of the store.
//
// Imports: base/fault, base/manifestkeys, base/pattern, platform,
// platform/actions, go.yaml.in/yaml/v2.
package manifest
