/* Changes its environment in the ways that programs do, says "up", and ends with its standard input.
 *
 * wipe: moves the strings and overwrites where they were, as a program does that renames itself
 * keep: leaves them
 * churn: sets and unsets variables for ever
 * again N: calls exec on itself for ever, X and Y in the environment counting up together
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static void wipe(void) {
    int count = 0;
    while (environ[count]) count++;
    char **copy = malloc((count + 1) * sizeof *copy);
    for (int i = 0; i < count; i++) copy[i] = strdup(environ[i]);
    copy[count] = NULL;
    char *from = environ[0], *to = environ[count - 1] + strlen(environ[count - 1]);
    environ = copy;
    memset(from, 0, to - from);
}

static void churn(void) {
    char name[32], value[4096];
    for (unsigned i = 0;; i++) {
        snprintf(name, sizeof name, "CHURN_%u", i % 400);
        memset(value, 'v', i % 4000);
        value[i % 4000] = 0;
        if (i % 3) setenv(name, value, 1); else unsetenv(name);
    }
}

static void again(char *self, const char *count) {
    char x[32], y[32], next[32];
    long n = atol(count);
    snprintf(x, sizeof x, "X=%ld", n);
    snprintf(y, sizeof y, "Y=%ld", n);
    snprintf(next, sizeof next, "%ld", n + 1);
    char *env[] = {x, y, NULL}, *argv[] = {self, "again", next, NULL};
    usleep(500);
    execve(self, argv, env);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "keep";
    if (!strcmp(mode, "again")) {
        if (!strcmp(argv[2], "0")) { puts("up"); fflush(stdout); }
        again(argv[0], argv[2]);
    }
    if (!strcmp(mode, "wipe")) wipe();
    if (!strcmp(mode, "wipe")) { setenv("LATER", "1", 1); unsetenv("GONE"); }
    puts("up");
    fflush(stdout);
    if (!strcmp(mode, "churn")) churn();
    return getchar() == EOF ? 0 : 1;
}
