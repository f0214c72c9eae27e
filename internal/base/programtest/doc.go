// Package programtest builds the small programs that instances need
// (ingot-init, ingot-builder, ingot-static, ingot-sftp) for tests that run whole servers.
//
// It may import the standard library only; only tests import it.
package programtest
