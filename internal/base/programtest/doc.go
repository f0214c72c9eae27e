// Package programtest builds the small programs that instances need
// (ingot-init, ingot-builder, ingot-static, ingot-sftp) for tests that run whole servers.
//
// Only tests import it.
//
// Imports: the standard library only.
package programtest
