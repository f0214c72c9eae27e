// Package manifestkeys lists the keys of app manifests: what each is for, whether Cloud
// Foundry has it, and whether this platform uses it. The parser, the client and
// docs/manifest.md share the list, so that an unknown key is reported alike
// everywhere.
//
// It may import suggest, a YAML library and the standard library; it must not
// import anything else of this module, because the client uses it.
package manifestkeys
