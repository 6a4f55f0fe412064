// Loads the program for the published command, on a Node that can.
void import('./main.ts')
