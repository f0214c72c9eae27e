// Package manifest reads app manifests: it parses and checks them, compares
// them with what is (Diff), brings apps into the shape they describe (Apply),
// and writes an app as a manifest (Of). Applying twice changes nothing, and a
// manifest made by Of applies without change.
//
// Manifests are YAML 1.1, as the clients of Cloud Foundry read them: there
// "yes" is true. It must not import faces or adapters.
//
// Imports: base/fault, base/manifestkeys, platform, platform/actions,
// go.yaml.in/yaml/v2.
package manifest
