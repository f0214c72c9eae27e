<?php
// Asked by PHP's web server for every request: a file is served as it is, and
// everything else answered by the application's index.php.
$path = rawurldecode(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH) ?: '/');
$root = $_SERVER['DOCUMENT_ROOT'];
$file = realpath($root . $path);
if ($path !== '/' && $file !== false && str_starts_with($file, realpath($root) . '/') && is_file($file)) {
    return false;
}
$_SERVER['SCRIPT_NAME'] = '/index.php';
$_SERVER['SCRIPT_FILENAME'] = $root . '/index.php';
chdir($root);
require $root . '/index.php';
