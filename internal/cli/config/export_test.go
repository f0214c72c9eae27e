package config

// CFPath returns the path of the cf CLI's configuration on a system.
var CFPath = cfPath
