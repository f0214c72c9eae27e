// Package apps has the console's pages of apps: the list, and of each app its instances, logs,
// deployments, environment, shell, routes, tasks, events and
// settings.
//
// It must not import another part of the console.
//
// Imports: base/background, base/cfapi, base/crashlines, base/digits,
// base/fault, base/manifestkeys, base/pattern, base/web, console/chart,
// console/page, github.com/coder/websocket, go.yaml.in/yaml/v2,
// golang.org/x/crypto/ssh.
package apps
