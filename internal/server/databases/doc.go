// Package databases knows the databases of a server: where they are, whether one was lost, what
// metrics show of them, and that their secrets are encrypted with the newest key.
//
// It knows no tables: the services have them.
//
// Imports: base/background, base/db,
// github.com/prometheus/client_golang/prometheus.
package databases
