// Package tracingtest has an OpenTelemetry collector for tests, which keeps the
// spans it gets. Its decoder is written by hand like the encoder of tracing; a test
// of e2e decodes spans with the types of OpenTelemetry.
//
// It must not be imported outside of tests.
//
// Imports: base/testkit, google.golang.org/protobuf/encoding/protowire.
package tracingtest
