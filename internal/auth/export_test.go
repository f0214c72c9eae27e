package auth

// Tests hash hundreds of passwords; what they check does not depend on the
// cost.
func init() { argonMemory = 64 }
