// Package health answers health and readiness checks, and gives the operator
// metrics and profiles of the process.
//
// It must not import a service: a server registers its parts by name.
//
// Imports: base/background, base/web,
// github.com/prometheus/client_golang/prometheus,
// github.com/prometheus/client_golang/prometheus/collectors,
// github.com/prometheus/client_golang/prometheus/promhttp.
package health
