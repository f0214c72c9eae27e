// Package manifest reads app manifests: it parses and checks them, compares
// them with what is (Diff), brings apps into the shape they describe (Apply),
// and writes an app as a manifest (Of). Applying twice changes nothing, and a
// manifest made by Of applies without change.
//
// Manifests are YAML 1.1, as the clients of Cloud Foundry read them: there
// "yes" is true. It may import cf, platform, fault, its package keys and a YAML
// library; it must not import faces or adapters.
package manifest
