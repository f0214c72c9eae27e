package connlimit

const (
	fewFiles  = 1024
	manyFiles = 1 << 20
)

// Share returns the maximum number of connections for a listener other than the
// API and the router, when each connection needs filesEach file descriptors:
// they use at most a fifth of the process's file descriptors.
func Share(filesEach int) int { return max(Files()/5/filesEach, 16) }
