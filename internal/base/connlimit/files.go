package connlimit

const (
	fewFiles  = 1024
	manyFiles = 1 << 20
)

// Share returns how many connections something beside the API and the router may
// have open together, when each takes so many file descriptors: no more than a
// fifth of what the process may have, so that the rest is left for them.
func Share(filesEach int) int { return max(Files()/5/filesEach, 16) }
