// Package push has the commands that bring files to the platform: push, dev, which
// pushes every change, and those for manifests and packages. They build and start
// apps with the functions of apps.
//
// It must not import other packages of commands than apps.
//
// Imports: base/cfapi, base/manifestkeys, base/pattern, base/plural, cli/apps,
// cli/bits, cli/client, cli/core, cli/term, cli/watch, go.yaml.in/yaml/v2.
package push
